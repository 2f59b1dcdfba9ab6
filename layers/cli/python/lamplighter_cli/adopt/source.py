"""Reads one Python file: its text, its syntax tree, what its names mean, and edits of its text.

Nothing is imported. Positions are offsets into the UTF-8 bytes of the text, as in syntax trees.
"""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CODING = re.compile(r"#.*?coding[:=]")
# The rest of the line is for what stands around the call.
_LONGEST_CALL = 92
_PYTHON_2 = ("Missing parentheses in call to 'print'", "multiple exception types must be")


class UnreadableError(Exception):
    """The file is no Python that this Python can parse."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Source:
    """A file and its syntax tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = _read(path)
        self.tree = _parse(self.text)
        self.data = self.text.encode()
        self._starts = [0]
        for line in io.BytesIO(self.data):
            self._starts.append(self._starts[-1] + len(line))
        self.names = Names(self.tree)

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return where a node begins, without its decorators."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Return where a node ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def line_start(self, node: ast.expr | ast.stmt) -> int:
        """Return where the line of a node begins."""
        return self._starts[node.lineno - 1]

    def line_end(self, offset: int) -> int:
        """Return where the line of an offset ends, before its newline."""
        found = self.data.find(b"\n", offset)
        return len(self.data) if found < 0 else found

    def indent(self, node: ast.expr | ast.stmt) -> str:
        """Return the white space at the beginning of a node's line."""
        line = self.data[self.line_start(node) : self.line_end(self.line_start(node))].decode()
        return line[: len(line) - len(line.lstrip())]

    def is_alone(self, node: ast.stmt) -> bool:
        """Return whether a statement shares its lines with no other."""
        before = self.data[self.line_start(node) : self.start(node)]
        after = self.data[self.end(node) : self.line_end(self.end(node))].strip()
        return not before.strip() and (not after or after.startswith(b"#"))

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yield the comments with their lines, without those that name the encoding."""
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT and not CODING.match(token.string):
                    yield token.start[0], token.string
        except (tokenize.TokenError, SyntaxError):
            return  # what can be parsed has tokens; older tokenizers see some of it otherwise

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        return self.data[self.start(node) : self.end(node)].decode()


def _read(path: Path) -> str:
    data = path.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"its text cannot be decoded: {error}", 1) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def silent_about_escapes() -> Iterator[None]:
    """Keep Python from warning of invalid escapes in an author's texts, whenever it parses them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _parse(text: str) -> ast.Module:
    try:
        with silent_about_escapes():
            return ast.parse(text)
    except SyntaxError as error:
        said = str(error.msg)
        hint = ": this is Python 2" if said.startswith(_PYTHON_2) else ""
        raise UnreadableError(f"it is not Python 3 ({said}){hint}", error.lineno or 1) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"it cannot be parsed: {error}", 1) from error


class Names:
    """What names in a file mean, as far as its imports say."""

    def __init__(self, tree: ast.Module) -> None:
        self.imported: dict[str, str] = {}
        self.starred: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    self.imported[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                for alias in node.names:
                    if alias.name == "*":
                        self.starred.append(node.module)
                    else:
                        self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def path(self, node: ast.AST) -> str | None:
        """Return the dotted path of what an expression names, if an import says so."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        return ".".join([self.imported[node.id], *reversed(attributes)])

    def airflow_path(self, node: ast.AST) -> str | None:
        """Return the dotted path of what an expression names in Airflow."""
        path = self.path(node)
        return path if path is not None and is_airflow(path) else None


def is_airflow(path: str) -> bool:
    """Return whether a module or name is Airflow's."""
    return path == "airflow" or path.startswith("airflow.")


class Edits:
    """Replacements in the text of a file; a later one takes the place of those inside it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace what is between two offsets."""
        self._edits = [edit for edit in self._edits if not (start <= edit[0] and edit[1] <= end)]
        self._edits.append((start, end, text))

    def replace_node(self, node: ast.expr | ast.stmt, text: str) -> None:
        """Replace a node."""
        self.replace(self._source.start(node), self._source.end(node), text)

    def insert(self, at: int, text: str) -> None:
        """Add text at an offset, after what was added there before."""
        self._edits.append((at, at, text))

    def node(self, node: ast.expr | ast.stmt) -> str:
        """Return the edited text of a node."""
        return self.text(self._source.start(node), self._source.end(node))

    def text(self, start: int = 0, end: int | None = None) -> str:
        """Return the edited text between two offsets."""
        data = self._source.data
        end = len(data) if end is None else end
        parts: list[bytes] = []
        at = start
        # Sorting is stable: insertions at one offset keep their order, and come before a
        # replacement that begins there.
        for first, last, text in sorted(self._edits, key=lambda edit: (edit[0], edit[1])):
            if first < at or last > end:
                continue
            parts += [data[at:first], text.encode()]
            at = last
        parts.append(data[at:end])
        return b"".join(parts).decode()


def call_text(function: str, arguments: list[str], indent: str) -> str:
    """Return a call, over several lines if it is long."""
    line = f"{function}({', '.join(arguments)})"
    if len(indent) + len(line) <= _LONGEST_CALL and "\n" not in line:
        return line
    # Lists of several lines are written without indentation.
    deeper = [re.sub(r"\n(?=( {4}\S.*,\n)|\]$)", f"\n{indent}    ", each) for each in arguments]
    inner = "".join(f"{indent}    {argument},\n" for argument in deeper)
    return f"{function}(\n{inner}{indent})"
