"""The incident of one device: one loop that does what the ladder says, for as long as it takes.

Only this file is loaded by the workflow sandbox; the rest is passed through to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from sickbay.model import contracts as c
    from sickbay.model.base import Payload, tamed
    from sickbay.model.command import COMMAND_UPDATE, UNVERIFIED, Answer, Command, CommandVerb, Halt
    from sickbay.model.incident import IncidentReport, IncidentState, Teller
    from sickbay.model.record import Phase
    from sickbay.policy import commanding, progress
    from sickbay.policy.ladder import next_step
    from sickbay.policy.restraint import settle
    from sickbay.policy.standing import SHORTEST
    from sickbay.policy.steps import Step, Verb
    from sickbay.policy.story import note
    from workflows.incident import filing, present
    from workflows.incident.inbox import Inbox, Refusal
    from workflows.incident.steps import CALLS, HEARTBEAT, Call, Waiting, priority

SILENT: Final = frozenset({Verb.READ, Verb.OPEN_RELEASE, Verb.CLOSE, Verb.END})
"""Verbs that need no word in the record first: they change nothing, or are that word."""

UNSPEAKABLE: Final = "StatusNotWritten"
"""Reason of a fault that the record cannot be told: it is waited out without trying to say so first."""

SUMMARY: Final = 200
"""Bytes of an activity's or timer's summary."""


@workflow.defn(name=c.INCIDENT_WORKFLOW)
class DeviceIncident:
    """One incident. Handlers enqueue, the loop acts; it ends when its record is closed or no longer its own."""

    @workflow.init
    def __init__(self, state: IncidentState) -> None:
        """Take the state: a new incident's, or what the last run continued with."""
        self._state = commanding.begun(state, workflow.now())
        self._inbox = Inbox()
        # Apart from what the watcher says: a command is answered at once, a word only after what is under way.
        self._orders = Inbox(workflow.info().run_id)
        self._ordered = False
        self._owed = False
        self._waiting: Waiting | None = None

    @workflow.run
    async def run(self, state: IncidentState) -> IncidentReport:  # noqa: ARG002 - taken by __init__
        """Run the ladder to its end."""
        while True:
            try:
                if await self._turn():
                    break
            except ActivityError as error:
                cause = error.cause
                if isinstance(cause, ApplicationError) and cause.type == c.SUPERSEDED:
                    break
                if isinstance(cause, ApplicationError) and cause.type == c.HINDERED:
                    halt = Halt.model_validate(cause.details[0])
                    self._state = commanding.halted(self._state, halt, workflow.now())
                    continue
                reason = UNSPEAKABLE if error.activity_type == c.Activity.WRITE_STATUS else "StepFailed"
                remedy = f"a step failed for long and is tried again: {cause or error}"
                self._failed(error, reason, remedy, activity=error.activity_type)
            except asyncio.CancelledError as error:
                self._failed(error, "Cancelled", "")
            except Exception as error:  # noqa: BLE001 - the edge of the loop: a fenced device never loses its keeper
                workflow.logger.exception("turn failed")
                self._failed(error, "InternalError", f"report this: {type(error).__name__}: {error}")
        self._abandon()
        report = present.report(self._state, workflow.now())
        self._file(report.outcome)
        workflow.logger.info("incident_ended as %s", report.outcome)
        return report

    @workflow.query(name=c.STATE_QUERY, description="All that the incident knows")
    def state(self) -> IncidentState:
        """Tell where the incident is; changes nothing."""
        return self._state

    @workflow.signal(name=c.OBSERVE_SIGNAL, description="Something was said of the device")
    def observe(self, *args: object) -> None:
        """Enqueue a word of the watcher."""
        self._inbox.put(c.OBSERVE_SIGNAL, args)

    @workflow.signal(name=c.ADMITTED_SIGNAL, description="The guard lets the incident act")
    def admitted(self, *args: object) -> None:
        """Enqueue the leader's admission."""
        self._inbox.put(c.ADMITTED_SIGNAL, args)

    @workflow.update(name=COMMAND_UPDATE, description="Tell the incident what to do, and be answered at once")
    def command(self, command: Command) -> Answer:
        """Apply a command that came by a door which asks who somebody is."""
        self._take_orders()
        return self._obey(command, verified=True)

    @command.validator
    def _check_command(self, command: Command) -> None:
        """Turn away what no answer is owed to, at no cost of history; everything else is answered, and written down."""
        if command.actor.startswith(UNVERIFIED):
            raise ApplicationError(f"actor: {UNVERIFIED} is the name of nobody; give your own")

    @workflow.signal(name=CommandVerb.PAUSE, description="Stop moving, probing and releasing; the fence stays")
    def pause(self, *args: object) -> None:
        """Enqueue the command, with a reason or an object, or nothing."""
        self._orders.put(CommandVerb.PAUSE, args)

    @workflow.signal(name=CommandVerb.EXTEND_QUARANTINE, description='Keep it out of service: {"until": "<time>"}')
    def extend_quarantine(self, *args: object) -> None:
        """Enqueue the command; its object names until when."""
        self._orders.put(CommandVerb.EXTEND_QUARANTINE, args)

    @workflow.signal(name=CommandVerb.RESUME, description="Refused as a signal: sickbay resume")
    def resume(self, *args: object) -> None:
        """Enqueue the command, so that its sender finds it refused."""
        self._orders.put(CommandVerb.RESUME, args)

    @workflow.signal(name=CommandVerb.APPROVE, description="Refused as a signal: sickbay approve")
    def approve(self, *args: object) -> None:
        """Enqueue the command, so that its sender finds it refused."""
        self._orders.put(CommandVerb.APPROVE, args)

    @workflow.signal(name=CommandVerb.RETIRE, description="Refused as a signal: sickbay retire")
    def retire(self, *args: object) -> None:
        """Enqueue the command, so that its sender finds it refused."""
        self._orders.put(CommandVerb.RETIRE, args)

    @workflow.signal(name=CommandVerb.PROBE_NOW, description="Refused as a signal: sickbay probe-now")
    def probe_now(self, *args: object) -> None:
        """Enqueue the command, so that its sender finds it refused."""
        self._orders.put(CommandVerb.PROBE_NOW, args)

    @workflow.signal(dynamic=True)
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Enqueue a signal that does not exist, so that its sender finds it refused."""
        self._inbox.put(name, args)

    async def _turn(self) -> bool:
        """Take what was said, decide, act; say whether the incident is over."""
        self._take_words()
        now = workflow.now()
        self._state = settle(self._state, now)
        step = next_step(self._state, now)
        if step.verb is Verb.END:
            return True
        self._state = progress.enter(self._state, step, now)
        self._present(step)
        unspeakable = self._state.fault is not None and self._state.fault.reason == UNSPEAKABLE
        # Whoever gave an order was told that it holds: only in the record does it outlive a Terminate.
        silent = step.verb in SILENT and not (self._owed and step.verb is Verb.READ)
        if self._state.unsaid and not silent and not (unspeakable and step.verb is Verb.WAIT):
            self._owed = False
            await self._act(Step(verb=Verb.WRITE, phase=step.phase, reason="Say", message=f"says {step.phase}"))
            if self._ordered:  # what was written does not tell of an order that came meanwhile
                self._state = self._state.model_copy(update={"unsaid": True})
        elif step.verb.waits:
            await self._stand_by(step)
        elif step.verb is not Verb.OPEN_RELEASE:
            await self._act(step)
        return False

    def _present(self, step: Step) -> None:
        """Show where the incident stands. The UI's own title is lost with the first run, so the memo has it too."""
        title = self._state.title
        if workflow.memo_value(c.TITLE_MEMO, "") != title:
            workflow.upsert_memo({c.TITLE_MEMO: title})
        workflow.set_current_details(present.details(self._state, step, workflow.now()))
        self._file()

    def _file(self, outcome: Phase | None = None) -> None:
        """Have the list of workflows find the incident by where it stands."""
        if updates := filing.updates(self._state, workflow.info().typed_search_attributes, outcome=outcome):
            workflow.upsert_search_attributes(updates)

    def _take_orders(self) -> None:
        while self._orders:
            word = self._orders.take()
            if isinstance(word, Command):
                self._obey(word, verified=False)
            elif isinstance(word, Refusal):
                self._refuse(word)
        if self._orders.dropped:
            self._state = commanding.refused(
                self._state, f"{self._orders.dropped} signals were too many at once", workflow.now()
            )
            self._orders.dropped = 0

    def _obey(self, command: Command, *, verified: bool) -> Answer:
        self._state, answer = commanding.obey(self._state, command, workflow.now(), verified=verified)
        self._ordered = True
        return answer

    def _take_words(self) -> None:
        self._take_orders()
        self._owed = self._owed or self._ordered
        self._ordered = False
        while self._inbox:
            word = self._inbox.take()
            now = workflow.now()
            if isinstance(word, c.Observed):
                self._state = progress.heard(self._state, word, now)
            elif isinstance(word, c.Admitted):
                self._state = progress.called(self._state, word)
            elif isinstance(word, Refusal):
                self._refuse(word)

    def _refuse(self, refusal: Refusal) -> None:
        workflow.logger.warning("signal refused: %s: %s", refusal.name, refusal.why)
        text = f"signal {refusal.name} refused: {refusal.why}"
        self._state = commanding.refused(self._state, text, workflow.now())

    def _failed(self, error: BaseException, reason: str, remedy: str, activity: str = "") -> None:
        if is_cancelled_exception(error):
            # Cancel from the UI must not leave a fenced device without a keeper: it is noted, and the loop goes on.
            self._state = note(self._state, "cancelled by hand; goes on", workflow.now(), Teller.ANYBODY)
            return
        self._state = progress.failed(self._state, activity, reason, tamed(remedy, 400), workflow.now())

    async def _act(self, step: Step) -> None:
        """Carry out one short verb."""
        call = CALLS[step.verb]
        result = await self._start(step, call.build(self._state, step))
        self._fold(call, result)

    def _fold(self, call: Call, result: Any) -> None:
        self._state = progress.worked(call.fold(self._state, result, workflow.now()), call.activity)

    def _start(self, step: Step, argument: Payload) -> workflow.ActivityHandle[Any]:
        call = CALLS[step.verb]
        return workflow.start_activity(
            call.activity,
            argument,
            task_queue=call.queue.of(self._state.target.device.cluster),
            result_type=call.result,
            start_to_close_timeout=call.start_to_close,
            schedule_to_close_timeout=call.schedule_to_close,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=call.retries,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            summary=step.message[:SUMMARY],
            priority=priority(self._state),
        )

    async def _stand_by(self, step: Step) -> None:
        """Wait for the step's activity, for a word from outside, or for the step's deadline."""
        self._continue_as_new_if_due()
        self._wait_for(step)
        deadline = None if step.recheck_at is None else max(step.recheck_at - workflow.now(), SHORTEST)
        try:
            await workflow.wait_condition(self._disturbed, timeout=deadline, timeout_summary=step.message[:SUMMARY])
        except TimeoutError:
            self._state = progress.after_timeout(self._state, step.verb, workflow.now())
            return
        if self._waiting is not None and self._waiting.handle.done():
            waiting, self._waiting = self._waiting, None
            self._fold(CALLS[waiting.verb], await waiting.handle)

    def _wait_for(self, step: Step) -> None:
        if step.verb is Verb.WAIT:
            self._abandon()
            return
        argument = CALLS[step.verb].build(self._state, step)
        if self._waiting is not None and (self._waiting.verb, self._waiting.input) == (step.verb, argument):
            return
        self._abandon()
        self._waiting = Waiting(step.verb, argument, self._start(step, argument))

    def _disturbed(self) -> bool:
        if self._inbox or self._orders or self._ordered:
            return True
        return self._waiting is not None and self._waiting.handle.done()

    def _abandon(self) -> None:
        if self._waiting is not None:
            self._waiting.handle.add_done_callback(_unheeded)
            self._waiting.handle.cancel()
            self._waiting = None

    def _continue_as_new_if_due(self) -> None:
        info = workflow.info()
        long = info.get_current_history_length() >= self._state.max_events
        if (long or info.is_continue_as_new_suggested()) and not (self._inbox or self._orders or self._ordered):
            self._abandon()
            workflow.continue_as_new(self._state)


def _unheeded(handle: asyncio.Task[Any]) -> None:
    """Take note of how a wait ended that nobody waits for any more."""
    if not handle.cancelled():
        handle.exception()
