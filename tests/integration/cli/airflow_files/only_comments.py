# Nothing but an import.
import airflow
