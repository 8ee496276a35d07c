"""The fields that we read of the objects that own pods, and of disruption budgets (see `k8s.wire`)."""

from __future__ import annotations

from k8s.wire import Condition, LabelSelector, Object, Wire


class ReplicaSpec(Wire, frozen=True):
    """The part that ReplicaSets, Deployments and StatefulSets share; the API server defaults replicas to 1."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()


class ReplicaStatus(Wire, frozen=True):
    """As `ReplicaSpec`, of the status."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet."""

    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class Deployment(Object, frozen=True):
    """A Deployment."""

    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class ConditionPattern(Wire, frozen=True):
    """A pod condition that a failure rule matches."""

    type: str
    status: str = "True"


class ExitCodes(Wire, frozen=True):
    """Exit codes that a failure rule matches: ``In`` or ``NotIn`` these."""

    operator: str
    values: tuple[int, ...] = ()


class FailureRule(Wire, frozen=True):
    """What a Job does about a failed pod."""

    action: str
    on_pod_conditions: tuple[ConditionPattern, ...] = ()
    on_exit_codes: ExitCodes | None = None


class FailurePolicy(Wire, frozen=True):
    """Failure rules, the first that matches applies."""

    rules: tuple[FailureRule, ...] = ()


class JobSpec(Wire, frozen=True):
    """What a Job asks for; the API server defaults ``backoffLimit`` to 6."""

    suspend: bool = False
    parallelism: int = 1
    completions: int | None = None
    backoff_limit: int = 6
    pod_failure_policy: FailurePolicy | None = None
    pod_replacement_policy: str = ""


class JobStatus(Wire, frozen=True):
    """How far a Job is."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class BudgetSpec(Wire, frozen=True):
    """Whom a disruption budget protects."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Wire, frozen=True):
    """What a disruption budget allows now."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(Object, frozen=True):
    """A pod disruption budget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
