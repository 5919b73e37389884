"""The page of the Python API: signatures and docstrings, read from the source."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from tests.architecture.source import PACKAGE
from tests.reference.markdown import page

if TYPE_CHECKING:
    from collections.abc import Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Section(NamedTuple):
    """A part of the page: its modules below `kafkalite`, each with its public names."""

    title: str
    introduction: str
    modules: dict[str, str]


_INTRODUCTION = """\
These names are the public Python API. All other names may change in any release. [Public names that
changed](../changes.md) lists changes. The types are the annotations in the source; `PathLike` is
`os.PathLike`. [Test with pytest](../how-to/pytest.md) and [Read captures](../how-to/show.md) have
examples."""

PACKAGES = {
    "testing.broker": "testing",
    "testing.history": "testing",
    "lab.replay.player.run": "lab.replay",
    "lab.replay.options": "lab.replay",
    "lab.spark.__init__": "lab.spark",
    **{
        f"client.{module}": "client"
        for module in (
            "access",
            "cluster_metadata",
            "consumer",
            "epochs",
            "errors",
            "fetches",
            "metadata",
            "producer",
            "records",
            "retries",
        )
    },
}
"""By module: the package that exports its names."""

SECTIONS = (
    Section(
        "Brokers in tests",
        "A broker that runs in the process of the test.",
        {
            "testing.broker": "Broker",
            "testing.broker_clock": "BrokerClock",
            "testing.data": "BrokerData",
            "control.commands.topics": "TopicStatus PartitionStatus",
            "control.topic_records": "TopicRecord",
            "control.group_status": (
                "GroupStatus GroupMember GroupOffset TopicPartitions ListedGroup"
            ),
            "control.transaction_reader": "TransactionStatus",
            "control.commands.reset": "ResetAnswer",
            "testing.requests": "BrokerRequests",
            "control.commands.requests": "RecordedRequest",
            "testing.faults": "BrokerFaults InjectedFault",
            "gateway.fault_rules": "FaultFields",
            "testing.links": "BrokerLinks DisturbedLink",
            "testing.history": "History HistoryComparison history_of same_history",
            "testing.identity": "BrokerIdentity IdentityFailure",
            "testing.nodes": "BrokerNodes BrokerNode",
            "control.commands.leaders": "LeaderStatus",
            "control.commands.report": "Report",
            "testing.plugin": "kafkalite kafkalite_session kafkalite_cluster",
            "coordinator.event_history": "Entry",
            "telemetry.metrics": "ClientMetrics Metric Distribution",
            "telemetry.instances": "ClientAttributes",
            "transactions.state": "TransactionState",
            "client.fencing": "FencingResult",
        },
    ),
    Section(
        "Producer and consumer",
        "An asyncio client of kafkalite and of Kafka. [Use epochs in a client]"
        "(../how-to/epoch-aware-client.md) has examples.",
        {
            "client.producer": "Producer ProducedBatch",
            "client.consumer": "PartitionConsumer",
            "client.records": "ProducerRecord ConsumerRecord",
            "client.epochs": "TopicPartition OffsetAndEpochs Epochs",
            "client.metadata": "Metadata",
            "client.cluster_metadata": "ClusterMetadata PartitionMetadata",
            "client.fetches": "FetchLimits",
            "client.retries": "Backoff",
            "client.access": "Access Login",
            "client.errors": "ClientError BrokerError TimedOutError CorruptBatchError "
            "NoOffsetError OffsetOutOfRangeError InvalidPartitionEpochError OutdatedMetadataError "
            "LogTruncationError",
        },
    ),
    Section(
        "Captures",
        "Functions that read pcap and pcapng files. Packets with IP options need the extra "
        "`capture`: "
        "`pip install '.[capture]'` in the clone.",
        {
            "capture.reading.captures": "read exchanges",
            "capture.reading.messages": "parse_request parse_response api_name error_name",
            "capture.reading.problems": "Problems",
            "capture.model": "Direction Endpoint Connection Opened Frame Gap Closed Exchange "
            "ProblemKind Problem",
            "capture.recording.recorder": "Recorder",
            "capture.recording.capture_writer": "CaptureOptions",
        },
    ),
    Section(
        "Replaying and comparing captures",
        "The functions behind `kafkalite replay` and `kafkalite diff`.",
        {
            "lab.replay.player.run": "replay",
            "lab.replay.options": "ReplayOptions",
            "lab.replay.report": "ReplayReport Finding FailOn",
            "lab.replay.diff.captures": "diff DiffReport Change ChangeKind",
        },
    ),
    Section(
        "Captures and logs as Arrow tables",
        "Needs the extra `columnar` (`pip install '.[columnar]'` in the clone).",
        {
            "lab.columnar.reading": "read_file",
            "lab.columnar.options": "Table Options",
            "lab.columnar.records.data_directories": "LogOptions table_names schema_of segments_of "
            "read_segment",
        },
    ),
    Section(
        "Captures and logs in Spark",
        "[Read captures as tables](../how-to/tables.md) lists the options of the sources. "
        "Needs the extra `spark` (`pip install '.[spark]'` in the clone). "
        "[Audit tables](audit-tables.md) describes the tables.",
        {
            "lab.spark.__init__": "register",
            "lab.spark.output_journal": "committed_files",
            "lab.spark.sources.capture": "CaptureSource",
            "lab.spark.sources.log": "LogSource",
        },
    ),
)


_WIDTH = 90

RETURNED_ONLY = {
    "BrokerClock",
    "BrokerFaults",
    "BrokerIdentity",
    "BrokerNode",
    "BrokerNodes",
    "IdentityFailure",
    "InjectedFault",
    "Metadata",
}
"""Classes whose objects are attributes or results: their constructors are not public."""

INTERNAL = {
    "Access": {"login_question", "tls_question"},
    "Backoff": {"delay_ms"},
    "ClusterMetadata": {"parse"},
    "Metadata": {
        "add_topic",
        "addresses",
        "ask_all",
        "has_new_topics",
        "must_refresh",
        "refresh",
        "set_partitions",
    },
    "Recorder": {"begin_connection", "end_connection", "put"},
    "ReplayReport": {"add_finding", "add_problem"},
}
"""Class → methods that only other classes of kafkalite call."""

_PROPERTIES = frozenset(("property", "cached_property"))


def python_api_page() -> str:
    """Return the page of the Python API."""
    parts = []
    for section in SECTIONS:
        parts += [f"## {section.title}", section.introduction]
        for module, names in section.modules.items():
            definitions = _definitions(module)
            for name in names.split():
                parts += _description(definitions[name], PACKAGES.get(module, module))
    return page("Python API", _INTRODUCTION, *parts)


def _definitions(module: str) -> dict[str, Definition]:
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, Definition)}


def _description(node: Definition, package: str) -> Iterator[str]:
    yield f"### kafkalite.{package}.{node.name}"
    if not isinstance(node, ast.ClassDef):
        yield _fenced(_signature(node))
        yield _docstring(node)
        return
    constructor = next(
        (function for function in _functions(node) if function.name == "__init__"), None
    )
    if node.name in RETURNED_ONLY:
        constructor = None
    bases = ", ".join(map(ast.unparse, node.bases))
    if constructor is None:
        yield _fenced(f"class {node.name}({bases})" if bases else f"class {node.name}")
    else:
        yield _fenced(_signature(constructor, node.name))
    yield _docstring(node)
    attributes = list(_attributes(node))
    if attributes:
        yield "\n".join(attributes)
    for function in _functions(node):
        if function.name.startswith("_") or function.name in INTERNAL.get(node.name, ()):
            continue
        if not _PROPERTIES.isdisjoint(map(ast.unparse, function.decorator_list)):
            annotation = _annotation(function.returns)
            yield f"- `{function.name}: {annotation}`: {_docstring(function, '  ')}"
            continue
        yield f"#### {node.name}.{function.name}"
        yield _fenced(_signature(function))
        yield _docstring(function)


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        statement
        for statement in node.body
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    """Yield public attributes of the body, and of `__init__` if they have a docstring."""
    constructor = next(
        (function for function in _functions(node) if function.name == "__init__"), None
    )
    bodies = [node.body] + ([] if constructor is None else [constructor.body])
    for body in bodies:
        for position, statement in enumerate(body):
            text = _text_after(body, position)
            if isinstance(statement, ast.AnnAssign):
                hint, about = _described(statement.annotation)
                text = text or about
                name, annotation = ast.unparse(statement.target), f": {_annotation(hint)}"
                value = "" if statement.value is None else f" = {ast.unparse(statement.value)}"
            elif isinstance(statement, ast.Assign):
                name, annotation = ast.unparse(statement.targets[0]), ""
                value = f" = {ast.unparse(statement.value)}"
            else:
                continue
            if body is not node.body:
                if text is None or not name.startswith("self."):
                    continue
                name, value = name.removeprefix("self."), ""
            if not name.startswith("_"):
                description = "" if text is None else f": {_lines(text, '  ')}"
                yield f"- `{name}{annotation}{value}`{description}"


def _described(annotation: ast.expr) -> tuple[ast.expr, str | None]:
    """Return the type of `Annotated[type, About(text)]` and the text; None if it has none."""
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([hint, ast.Call(_, [text, *_])])):
            return hint, ast.literal_eval(text)
    return annotation, None


def _text_after(body: list[ast.stmt], position: int) -> str | None:
    """Return the docstring below an attribute."""
    following = body[position + 1] if position + 1 < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value)
    return None


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str | None = None) -> str:
    """Return a signature without `self`, in several lines if it is long."""
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined] # a copy
    if arguments.args and arguments.args[0].arg in {"self", "cls"}:
        del arguments.args[0]
    return_type = "" if name or node.returns is None else f" -> {_annotation(node.returns)}"
    parts = re.split(r", (?![^\[(]*[\])])", ast.unparse(arguments))
    parts = [re.sub(r"^(\*{0,2}\w+: [^=]+)=", r"\1 = ", part) for part in parts]
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    called = f"{prefix}{name or node.name}"
    signature = f"{called}({', '.join(parts)}){return_type}"
    if len(signature) <= _WIDTH:
        return signature
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{called}(\n{inner}){return_type}"


def _annotation(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _docstring(node: Definition, indent: str = "") -> str:
    return _lines(ast.get_docstring(node) or "", indent)


def _lines(text: str, indent: str) -> str:
    """Return a docstring in Markdown: single asterisks and brackets are not markup."""
    cleaned = re.sub(r"\n[ \t]+(?=\S)", "\n", text.strip()) if indent else text.strip()
    return cleaned.replace("\n", f"\n{indent}")


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"
