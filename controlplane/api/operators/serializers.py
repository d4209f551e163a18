"""One operator over REST: what is shown of it."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.api.filtering import LONGEST_SEARCH
from controlplane.api.results.serializers import ResultColumnSerializer
from controlplane.operators.log_lines import LEVELS
from controlplane.operators.logs import MOST_LINES
from domain.topology.spec import MAX_PARALLELISM
from spark_jobs.state.sample_files import MOST_ROWS

TYPES = ["text", "number", "boolean", "time", ""]


class OperatorParameterSerializer(serializers.Serializer):
    name = serializers.CharField()
    value = serializers.JSONField(help_text="as the specification has it")


class OperatorColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.ChoiceField(TYPES, allow_blank=True, help_text="empty where it is not known")
    masked = serializers.BooleanField(help_text="its values are not shown (RESURGE_MASK_COLUMNS)")


class OperatorColumnsSerializer(serializers.Serializer):
    columns = OperatorColumnSerializer(many=True)
    origin = serializers.ChoiceField(
        ["kind", "inputs", "unknown"],
        help_text="the kind of the operator has them; they follow from its inputs; only its rows show them",
    )
    note = serializers.CharField(help_text="the same in a sentence")


class OperatorInputSerializer(serializers.Serializer):
    partitioning = serializers.CharField()
    key = serializers.CharField(allow_blank=True, help_text="the column that chooses the partition")
    feedback = serializers.BooleanField()
    gives = OperatorColumnsSerializer(help_text="the columns of its rows")

    def get_fields(self) -> dict[str, serializers.Field]:
        """`from` cannot be the name of a class's attribute."""
        return {"from": serializers.CharField(help_text="an operator"), **super().get_fields()}


class OperatorSerializer(serializers.Serializer):
    """How an operator is configured."""

    topology = serializers.CharField()
    version = serializers.IntegerField(help_text="of the specification")
    name = serializers.CharField()
    kind = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    parallelism = serializers.IntegerField()
    output = serializers.BooleanField()
    params = OperatorParameterSerializer(many=True)
    sql = serializers.CharField(allow_blank=True, help_text="its query; empty where its kind has none")
    gives = OperatorColumnsSerializer(help_text="the columns of its rows")
    inputs = OperatorInputSerializer(many=True)


class LogParameters(serializers.Serializer):
    text = serializers.CharField(
        max_length=LONGEST_SEARCH,
        default="",
        allow_blank=True,
        trim_whitespace=False,
        help_text="only lines that hold it, in whatever case",
    )
    level = serializers.ChoiceField(LEVELS, default="debug", help_text="only lines at least as serious")
    node = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="only logs of this node, without the driver's"
    )
    limit = serializers.IntegerField(min_value=1, max_value=MOST_LINES, default=200, help_text="lines")


class LogLineSerializer(serializers.Serializer):
    source = serializers.CharField(help_text="`driver`, or a node and which of its processes")
    at = serializers.DateTimeField(allow_null=True, help_text="null where the log says no time")
    level = serializers.ChoiceField(LEVELS)
    text = serializers.CharField(help_text="at most 2,000 characters")


class LogSourceSerializer(serializers.Serializer):
    name = serializers.CharField()
    whole = serializers.BooleanField(help_text="read from its beginning on; otherwise its end only")


class UnreadLogSerializer(serializers.Serializer):
    name = serializers.CharField()
    reason = serializers.CharField()


class OperatorLogSerializer(serializers.Serializer):
    """The end of the logs that have to do with an operator, the newest line last."""

    topology = serializers.CharField()
    operator = serializers.CharField()
    nodes = serializers.ListField(
        child=serializers.CharField(),
        help_text="all that have partitions of the operator, then those that the newest incident lost",
    )
    sources = LogSourceSerializer(many=True, help_text="logs that were read")
    unread = UnreadLogSerializer(many=True, help_text="logs that were not, each with the reason")
    matching = serializers.IntegerField(help_text="lines that were asked for; `lines` are the last of them")
    lines = LogLineSerializer(many=True)


class OperatorProblemSerializer(serializers.Serializer):
    """A problem of an operator, with what is known of the rows that caused it."""

    id = serializers.IntegerField(help_text="of `problems/{id}/`")
    at = serializers.DateTimeField(help_text="last time it happened")
    first_at = serializers.DateTimeField()
    severity = serializers.CharField()
    where = serializers.CharField()
    what = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField()
    row = serializers.DictField(
        allow_null=True,
        help_text="of its input, that it failed on: at most 1,000 bytes, masked as in results",
    )
    rows = serializers.ListField(
        child=serializers.CharField(), help_text="rows of a source that were not used: at most ten"
    )
    known = serializers.CharField(help_text="what is known of the rows that caused it, in a sentence")


class RowsParameters(serializers.Serializer):
    partition = serializers.IntegerField(
        min_value=0, max_value=MAX_PARALLELISM, default=0, help_text="its number"
    )
    limit = serializers.IntegerField(min_value=1, max_value=MOST_ROWS, default=MOST_ROWS, help_text="rows")


class OperatorRowsSerializer(serializers.Serializer):
    """The last rows that a partition of an operator gave."""

    topology = serializers.CharField()
    partition = serializers.CharField()
    origin = serializers.ChoiceField(
        ["results", "sample", "none"],
        help_text="committed results; rows of the newest epoch that had some, committed or not; or none, and "
        "`note` says why",
    )
    note = serializers.CharField(help_text="what these rows are, or why there are none, in a sentence")
    epoch = serializers.IntegerField(help_text="the newest that counts, or that of the sample")
    at = serializers.DateTimeField(allow_null=True, help_text="when the sample was taken")
    columns = ResultColumnSerializer(many=True)
    rows = serializers.ListField(child=serializers.DictField(), help_text="the last one first")
