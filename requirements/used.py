"""Names that only seem unused, for vulture: each with who uses it. Never imported."""

# ruff: noqa: B018, F821, SLF001 - every line is a bare name
# mypy: ignore-errors

# Reports: `entry.publish` turns every field into a metric.
_.backlog_seconds
_.cancelled_jobs
_.cancelled_runs
_.claimed_dags
_.considered
_.conflicting_events
_.dead_lettered
_.failed_backfills
_.failed_runs
_.failed_searches
_.failed_steps
_.failed_watchers
_.lost_claims
_.malformed_rows
_.parked_events
_.parked_watchers
_.passed_dates
_.released_runs
_.resent_events
_.resent_pushes
_.capacity_rejections
_.retried_steps
_.sent_events
_.skipped_steps
_.job_dollars
_.started_jobs
_.succeeded_runs
_.succeeded_steps
_.throttled_starts
_.triggered_runs
_.waiting_steps
_.woken_runs

# What authors import, or mirror from Airflow.
AirflowPlugin
DeltaTriggerTimetable
EventsTimetable
MultipleCronTriggerTimetable
TaskFailedEvent
TaskSkippedEvent
TaskSuccessEvent
check_timetable
_.is_clean
_.iter_dagrun_infos_between
_.resolve_partition_date
_.run_ordering

# Options of tasks, settings, limits and usage, read by their names.
_.free_memory_gb
_.free_vcpus
_.storage_gb
_.memory_gb_hours
_.storage_gb_hours
_.vcpu_hours
_.driver_cores
_.driver_memory
_.emr_job_role_arn
_.executor_cores
_.executor_memory
_.max_executors
_.sandbox_function
_.spark_driver_cores
_.spark_driver_memory_gb
_.spark_executor_cores
_.spark_executor_memory_gb

# Tell two submissions apart when they are compared.
_.fingerprint

# Only in annotations that are strings.
DataclassInstance

# The tests' own access to the local deployment: its state, and its parts one by one.
guarded_moto
is_built
_.answering
_.copy_state
_.is_idle
_.kill_next

# What users of the pytest plugin and of `LocalDeployment` call.
_.duplicate
_.fail_next
_.hangs
_.queue_timeout
_.skip_next

# Lambda's context, as Powertools reads it.
_.aws_request_id
_.function_name
_.invoked_function_arn

# Attributes of other libraries, and methods that they call.
_._get_connection
_.create_system
_.current_account
_.formatter_class
_.file_system_configs
_.intercepted_binops
_.log_request
_.notification_configuration
_.path_stats
_.protocol_version
_.redirect_request
_.retention_in_days
_.uri_match

# States of EMR Serverless, whole.
PENDING

# Examples: run by Spark or named in a DAG file.
HttpPollTrigger
QUALITY
SometimeAfterWorkdayTimetable
greet

# What CDK apps use of a deployment.
_.events_fifo_queue
_.events_queue
_.function_roles
_.grant_operate
_.grant_push
_.grant_read
_.grant_send_events
_.job_role

# A property of stacks.
_.termination_protection
