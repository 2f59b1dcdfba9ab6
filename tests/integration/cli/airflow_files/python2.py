from airflow import DAG

print "a DAG of 2016"
dag = DAG("python2")
