"""Topologies and what they consist of; the database keeps their history."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Greatest

from controlplane.topologies.choices import (
    PLANNER_CHOICES,
    REPLICATION_PLANNER_CHOICES,
    ApprovalPolicy,
    Desired,
    Guarantee,
    MethodPolicy,
    Outputs,
    OverloadPolicy,
    PartitionState,
    QueryStatus,
    RebalancingPolicy,
    ReplicationMode,
    RollbackPolicy,
    Severity,
    SlowNodesPolicy,
    TentativeOutput,
    TopologyStatus,
)
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

PRIORITY_LOW, PRIORITY_HIGH = 1, 10


def rack_exposure_unknown() -> dict[str, Any]:
    """Of a topology that does not run, and where no rack is known."""
    return {"racks": 0, "fatal": 0, "losses": []}


class Topology(models.Model):
    """A graph of operators and where its run stands."""

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(TOPOLOGY_NAME_PATTERN, "a small letter, then small letters, digits or -")],
    )
    version = models.PositiveIntegerField(default=1)
    status = models.CharField(
        max_length=16, choices=TopologyStatus.choices, default=TopologyStatus.DRAFT, db_index=True
    )
    desired = models.CharField(max_length=8, choices=Desired.choices, default=Desired.STOPPED, db_index=True)
    spec = models.JSONField(default=dict)
    guarantee = models.CharField(
        max_length=8,
        choices=Guarantee.choices,
        default=Guarantee.EXACT,
        help_text="of the newest version. exact: each row counts once, whatever fails; bounded: what is left "
        "goes on at once after a failure, each row counts at most once, and the state of a key lacks at most "
        "what came since it was stored last",
    )
    error = models.TextField(blank=True, default="")
    method = models.CharField(
        max_length=16,
        choices=MethodPolicy.choices,
        default=MethodPolicy.AUTO,
        help_text="auto: room is used at once; only a topology of which every wave puts back all waits",
    )
    planner = models.CharField(
        max_length=32,
        choices=PLANNER_CHOICES,
        default="best_density",
        help_text="who chooses what returns first",
    )
    rollback = models.CharField(
        max_length=16,
        choices=RollbackPolicy.choices,
        default=RollbackPolicy.ANCESTORS,
        help_text="what incremental recovery undoes of what still runs",
    )
    approval = models.CharField(
        max_length=16,
        choices=ApprovalPolicy.choices,
        default=ApprovalPolicy.AUTOMATIC,
        help_text="whether recovery plans wait for an operator",
    )
    rebalancing = models.CharField(
        max_length=16,
        choices=RebalancingPolicy.choices,
        default=RebalancingPolicy.AUTOMATIC,
        help_text="when partitions that run move to nodes with more room",
    )
    overload = models.CharField(
        max_length=16,
        choices=OverloadPolicy.choices,
        default=OverloadPolicy.AUTOMATIC,
        help_text="what happens while more comes in than is worked off",
    )
    slow_nodes = models.CharField(
        max_length=16,
        choices=SlowNodesPolicy.choices,
        default=SlowNodesPolicy.AUTOMATIC,
        help_text="what happens with nodes whose tasks take a multiple of the time of others'",
    )
    correlation_threshold = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="so many lost nodes are a correlated failure; empty: the installation's number",
    )
    correlation_window = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0)],
        help_text="seconds from one loss to the next; empty: the installation's number",
    )
    replication_mode = models.CharField(
        max_length=8,
        choices=ReplicationMode.choices,
        default=ReplicationMode.ADVISE,
        help_text="whether replicas run",
    )
    replication_planner = models.CharField(
        max_length=32,
        choices=REPLICATION_PLANNER_CHOICES,
        default="structure_aware",
        help_text="who chooses what is worth a replica",
    )
    replication_budget = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="partitions that a replication plan may replicate; empty: a quarter of all",
    )
    tentative_output = models.CharField(
        max_length=8,
        choices=TentativeOutput.choices,
        default=TentativeOutput.OFF,
        help_text="what queries do that lack a part of their input",
    )
    tentative_fidelity = models.FloatField(
        default=0.0,
        validators=[MinValueValidator(0.0), MaxValueValidator(1.0)],
        help_text="share of its output, 0 to 1, above which a query gives tentative output",
    )
    tentative_worth = models.FloatField(
        default=0.5,
        validators=[MinValueValidator(0.0), MaxValueValidator(1.0)],
        help_text="what complete tentative output counts for in recovery plans, 0 to 1, where final output "
        "counts for 1",
    )
    tentative_except = models.JSONField(
        default=list, blank=True, help_text="operators whose queries never give tentative output"
    )
    generation = models.PositiveIntegerField(default=0)
    applied_generation = models.PositiveIntegerField(
        default=0, help_text="generation of the plan the driver reported last"
    )
    head_epoch = models.PositiveBigIntegerField(default=0)
    committed_epoch = models.PositiveBigIntegerField(default=0)
    checkpoint_epoch = models.PositiveBigIntegerField(default=0)
    input_rate = models.FloatField(default=0.0, help_text="tuples per second")
    load = models.FloatField(
        null=True, blank=True, help_text="seconds of work for each second of input; empty: not known yet"
    )
    usual_load = models.FloatField(
        null=True, blank=True, help_text="`load` of the last minutes in which all was well; empty: not known"
    )
    lag = models.FloatField(default=0.0, help_text="seconds of input that wait")
    catch_up = models.FloatField(
        null=True,
        blank=True,
        help_text="seconds until what is behind has caught up, as the driver estimates it: 86,400 if it "
        "comes no nearer; empty: nothing is behind, or no pace is known yet",
    )
    load_falls = models.BooleanField(
        default=False, help_text="whether its load is less than a cycle of windows before"
    )
    overloaded_since = models.DateTimeField(
        null=True, blank=True, help_text="since when more has come in than was worked off"
    )
    slow_since = models.JSONField(
        default=dict,
        blank=True,
        help_text="nodes whose tasks take a multiple of the time of others', and since when",
    )
    rack_exposure = models.JSONField(
        default=rack_exposure_unknown, blank=True, help_text="what the loss of a single rack would take down"
    )
    acting = models.JSONField(
        default=dict,
        blank=True,
        help_text="partitions that a replica has taken over, which no plan knows of yet, and its node",
    )
    shadows = models.JSONField(
        default=dict,
        blank=True,
        help_text="the other replicas, by partition: node, and whether it is as far as the partition",
    )
    keys = models.JSONField(
        default=dict,
        blank=True,
        help_text="by node, what became of the states of keys, as the driver said last; empty where the "
        "guarantee is exact",
    )
    told_life = models.PositiveBigIntegerField(default=0, help_text="of the driver that was heard of last")
    told_at = models.FloatField(default=0.0, help_text="when that said so, by its own clock")
    cpu_model = models.JSONField(
        default=dict, blank=True, help_text="what its work costs nodes, as `domain.capacity` learned it"
    )
    deployed_at = models.DateTimeField(null=True, blank=True)
    deployed_spec = models.JSONField(
        null=True,
        blank=True,
        help_text="the specification that runs, or ran last; the checkpoints are of it",
    )
    computation = models.PositiveIntegerField(
        default=0, help_text="the first version that computes the same rows as the one that runs, or ran last"
    )
    renewed = models.JSONField(
        default=list,
        blank=True,
        help_text="operators that were added or changed since the first tuple: what they give cannot be "
        "recomputed from it",
    )
    continues = models.JSONField(
        null=True,
        blank=True,
        help_text="the checkpoint from which it goes on, and the partitions that begin without state; empty: "
        "it starts from its first tuple",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    metrics_at = models.DateTimeField(
        null=True, blank=True, help_text="when the last metrics event was published"
    )

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "topologies"

    def __str__(self) -> str:
        return self.name


class TopologyVersion(models.Model):
    """One accepted specification; versions are never changed."""

    topology = models.ForeignKey(Topology, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("topology", "-number")
        constraints = (models.UniqueConstraint(fields=["topology", "number"], name="version_number_unique"),)

    def __str__(self) -> str:
        return f"{self.topology} v{self.number}"


class Partition(models.Model):
    """One partition of an operator: where it runs and how it does."""

    topology = models.ForeignKey(Topology, on_delete=models.CASCADE, related_name="partitions")
    operator = models.CharField(max_length=64)
    index = models.PositiveIntegerField()
    node = models.ForeignKey(
        "nodes.Node", null=True, blank=True, on_delete=models.SET_NULL, related_name="partitions"
    )
    state = models.CharField(max_length=16, choices=PartitionState.choices, default=PartitionState.STARTING)
    epoch = models.PositiveBigIntegerField(default=0)
    cpu = models.FloatField(
        default=0.0, help_text="CPU seconds per second of its node, without what every node takes anyway"
    )
    cpu_request = models.FloatField(
        default=0.0, help_text="cores that are planned for it at least, as its operator says"
    )
    rows_in_rate = models.FloatField(default=0.0)
    rows_out_rate = models.FloatField(default=0.0)
    state_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("topology", "operator", "index")
        constraints = (
            models.UniqueConstraint(fields=["topology", "operator", "index"], name="partition_unique"),
        )

    def __str__(self) -> str:
        return self.label

    @property
    def planned_cpu(self) -> float:
        """Cores that plans count for it; `PLANNED_CPU` is the same in a query."""
        return max(self.cpu, self.cpu_request)

    @property
    def label(self) -> str:
        """The partition id used everywhere: ``O3[0]``."""
        return f"{self.operator}[{self.index}]"


PLANNED_CPU = Greatest("cpu", "cpu_request")
"""Cores that plans count for a partition, of its rows."""


class FlowRates(models.Model):
    """What partitions give, and to which, as the driver averaged and told it last; of a specification that it
    may not be any more. Apart from the topology's own row, which is read all the time."""

    topology = models.OneToOneField(Topology, on_delete=models.CASCADE, related_name="flow_rates")
    at = models.DateTimeField(help_text="when they were told")
    given = models.JSONField(default=dict, help_text="partition id -> rows/s")
    pairs = models.JSONField(
        default=dict, help_text="partition id -> operator that reads from it -> rows/s to each target there"
    )

    class Meta:
        ordering = ("topology",)

    def __str__(self) -> str:
        return f"{self.topology}: of {len(self.given)} partitions"


class Query(models.Model):
    """An output partition with everything upstream of it (the paper's query partition)."""

    topology = models.ForeignKey(Topology, on_delete=models.CASCADE, related_name="queries")
    partition = models.OneToOneField(Partition, on_delete=models.CASCADE, related_name="query")
    priority = models.PositiveSmallIntegerField(
        default=PRIORITY_LOW,
        validators=[MinValueValidator(PRIORITY_LOW), MaxValueValidator(PRIORITY_HIGH)],
    )
    status = models.CharField(max_length=16, choices=QueryStatus.choices, default=QueryStatus.STARTING)
    available = models.BooleanField(default=False)
    parked = models.BooleanField(default=False, help_text="stopped to leave its room to others")
    accept_latency = models.BooleanField(
        default=False,
        help_text="its present latency is to be its usual one; until detection has taken that in",
    )
    latency = models.FloatField(null=True, blank=True, help_text="seconds")
    baseline_latency = models.FloatField(null=True, blank=True, help_text="seconds")
    relative_latency = models.FloatField(null=True, blank=True)
    fidelity = models.FloatField(
        null=True,
        blank=True,
        help_text="share of its output, 0 to 1, that its tentative rows have; empty: it gives none",
    )
    epoch = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("topology", "partition")
        verbose_name_plural = "queries"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(priority__gte=PRIORITY_LOW, priority__lte=PRIORITY_HIGH),
                name="query_priority_range",
            ),
        )

    def __str__(self) -> str:
        return self.partition.label


class TentativePeriod(models.Model):
    """A time in which a query went on without a part of its input, and what became of those rows."""

    topology = models.ForeignKey(Topology, on_delete=models.CASCADE, related_name="tentative_periods")
    query = models.CharField(max_length=80, help_text="its id, O3[0]")
    generation = models.PositiveIntegerField(help_text="of the plan that its driver had applied")
    began_at = models.DateTimeField(help_text="when its first tentative rows were known")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="when it gave none any more")
    first_epoch = models.PositiveBigIntegerField()
    last_epoch = models.PositiveBigIntegerField(help_text="the newest that is known of")
    fidelity = models.FloatField(help_text="the least share of its output, 0 to 1, that was left")
    corrected_at = models.DateTimeField(
        null=True, blank=True, help_text="when its rows were compared with the final ones"
    )
    stayed = models.PositiveBigIntegerField(default=0, help_text="rows that are the same in the final output")
    changed = models.PositiveBigIntegerField(default=0, help_text="rows of which a measure is another")
    appeared = models.PositiveBigIntegerField(default=0, help_text="final rows that had not been given")
    vanished = models.PositiveBigIntegerField(default=0, help_text="rows that the final output does not have")
    problem = models.TextField(blank=True, default="", help_text="why they were not compared")

    class Meta:
        ordering = ("topology", "-began_at", "query")
        indexes = (models.Index(fields=["topology", "ended_at"], name="tentative_topology_ended"),)

    def __str__(self) -> str:
        return f"{self.query}: epochs {self.first_epoch} to {self.last_epoch}"


class AvailabilitySample(models.Model):
    """How many queries were available at an instant; `weighted` counts by priority."""

    topology = models.ForeignKey(Topology, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    available = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    weighted = models.FloatField(help_text="share of the total priority that is available, 0 to 1")
    tentative = models.PositiveIntegerField(
        default=0, help_text="queries that are not available and give tentative output"
    )

    class Meta:
        ordering = ("topology", "at")
        indexes = (
            models.Index(fields=["topology", "at"], name="sample_topology_at"),
            models.Index(fields=["-at"], name="sample_at"),
        )

    def __str__(self) -> str:
        return f"{self.topology} {self.at:%H:%M:%S} {self.available}/{self.total}"


class Problem(models.Model):
    """Something that went wrong and what to do about it; repetitions are counted."""

    topology = models.ForeignKey(
        Topology, null=True, blank=True, on_delete=models.CASCADE, related_name="problems"
    )
    at = models.DateTimeField(help_text="last time it happened")
    first_at = models.DateTimeField(auto_now_add=True)
    severity = models.CharField(max_length=8, choices=Severity.choices, default=Severity.ERROR)
    where = models.CharField(max_length=255)
    what = models.TextField()
    hint = models.TextField(blank=True, default="")
    count = models.PositiveIntegerField(default=1)
    row = models.JSONField(
        null=True,
        blank=True,
        default=None,
        help_text="the row that caused it, masked, where it is known; shown to operators only",
    )

    class Meta:
        ordering = ("-at",)
        indexes = (
            models.Index(fields=["topology", "-at"], name="problem_topology_at"),
            models.Index(fields=["-at", "-id"], name="problem_at"),
        )

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"[:120]


class Installation(models.Model):
    """One row: which installation the database is of."""

    identity = models.CharField(max_length=32, help_text="in every plan in ZooKeeper")

    class Meta:
        verbose_name = "installation id"

    def __str__(self) -> str:
        return self.identity


class FormerTopology(models.Model):
    """A name that a topology had which was deleted, or one that is in ZooKeeper of another database."""

    name = models.CharField(max_length=64, unique=True)
    generation = models.PositiveIntegerField(
        help_text="the last one; a new topology of this name goes on counting from it"
    )
    outputs = models.CharField(max_length=8, choices=Outputs.choices, default=Outputs.KEEP)
    cleared_at = models.DateTimeField(
        null=True, blank=True, help_text="when all that was to be removed had been; empty until then"
    )
    foreign = models.BooleanField(
        default=False,
        help_text="found in ZooKeeper, of another database; kept until the topology of this name is deleted",
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
