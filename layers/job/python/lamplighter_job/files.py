"""Small files wherever Hadoop's FileSystem can reach: in S3 on a cluster, on disk elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """Reads and writes whole files, also when the program has stopped its session meanwhile."""

    def __init__(self, spark: SparkSession) -> None:
        # Both outlive the session: a stopped one has no way to its JVM any more.
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no public door to Hadoop's files
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        path, system = self._locate(uri)
        stream = system.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, uri: str, content: bytes) -> None:
        """Put a file there, whether there was one or not."""
        path, system = self._locate(uri)
        stream = system.create(path, True)  # over whatever is there
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _locate(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return path, path.getFileSystem(self._configuration)


def beside(uri: str, name: str) -> str:
    """Return where a file of that name lies in the same folder."""
    folder, slash, _ = uri.rpartition("/")
    return f"{folder}{slash}{name}"
