"""One leader at a time, by a real Lease; and what no real server can be made to do in between, by a scripted one."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from k8s.election import Election, Timing
from k8s.gateway import MERGE_PATCH, Gateway, decode
from k8s.lab.lab import Lab
from k8s.resources import LEASES
from sickbay import errors
from tests.k8s.scripted import Scripted, cut, says, scripted, silence, status

FAST = Timing(duration=timedelta(seconds=1.5), deadline=timedelta(seconds=1), retry=timedelta(seconds=0.05))
SOON = 5.0
"""Seconds within which anything here has happened, or never will."""


def lease(holder: str, term: object = 1, version: str = "5") -> dict[str, Any]:
    """Build a Lease as the server gives it."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 1, "leaseTransitions": term}
    return {"metadata": {"name": "l", "namespace": "kube-system", "resourceVersion": version}, "spec": spec}


def candidate(gateway: Gateway, name: str = "l", **more: Any) -> Election:
    """Build a candidacy for a Lease in kube-system."""
    return Election(gateway, namespace="kube-system", name=name, timing=FAST, **more)


async def spec_of(lab: Lab, name: str) -> dict[str, Any]:
    """Read a Lease's spec."""
    spec: dict[str, Any] = decode(await lab.gateway.request("GET", LEASES.path("kube-system", name)))["spec"]
    return spec


@pytest.mark.lab
async def test_the_first_term_is_one_and_a_release_is_followed_at_once(lab: Lab) -> None:
    """The first holder has term 1; it leaves the Lease empty, and the next takes term 2 without waiting it out."""
    async with asyncio.timeout(SOON), candidate(lab.gateway, "release") as first:
        assert (first.leading, first.term, first.holder) == (False, 0, "")
        await first.acquired()
        assert (first.leading, first.term, first.holder) == (True, 1, first.identity)
        assert (await spec_of(lab, "release"))["holderIdentity"] == first.identity
    assert not first.leading
    assert first.lost.is_set()
    assert (await spec_of(lab, "release"))["holderIdentity"] == ""
    async with asyncio.timeout(FAST.duration.total_seconds() / 2), candidate(lab.gateway, "release") as second:
        await second.acquired()
        assert second.term == 2
        assert second.identity != first.identity


@pytest.mark.lab
async def test_of_many_candidates_one_leads_at_a_time(lab: Lab) -> None:
    """Five candidates lead one after the other, never two at once, each with a term of its own."""
    async with asyncio.timeout(4 * SOON), AsyncExitStack() as stack:
        waiting = [await stack.enter_async_context(candidate(lab.gateway, "many")) for _ in range(5)]
        terms = []
        while waiting:
            tasks = [asyncio.create_task(election.acquired()) for election in waiting]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            leaders = [election for election in waiting if election.leading]
            assert len(leaders) == 1
            terms.append(leaders[0].term)
            await leaders[0].__aexit__(None, None, None)
            waiting.remove(leaders[0])
            for task in tasks:
                task.cancel()
        assert terms == [1, 2, 3, 4, 5]


SLEEPER = """
    import asyncio, sys
    from datetime import timedelta
    from k8s.election import Election, Timing
    from k8s.gateway import Gateway

    timing = Timing(duration=timedelta(seconds=1.5), deadline=timedelta(seconds=1), retry=timedelta(seconds=0.05))

    async def main():
        async with await Gateway.connect(kubeconfig=sys.argv[1]) as gateway:
            async with Election(gateway, namespace="kube-system", name="sleeper", timing=timing) as election:
                await election.acquired()
                while not election.lost.is_set():
                    print(election.leading, election.term, file=sys.stderr, flush=True)
                    sys.stdin.readline()  # blocks the loop, so that nothing of ours runs before the next look
                    print(election.leading, election.term, file=sys.stderr, flush=True)
                    await election.lost.wait()
                print("lost", file=sys.stderr, flush=True)

    asyncio.run(main())
"""


@pytest.mark.lab
async def test_a_leader_that_slept_knows_it_at_once(lab: Lab) -> None:
    """After SIGSTOP another leads with the next term; after SIGCONT the sleeper's first look says no."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        dedent(SLEEPER),
        str(lab.kubeconfig),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(4 * SOON):
            assert (await process.stderr.readline()).decode().split() == ["True", "1"]
            process.send_signal(signal.SIGSTOP)
            async with candidate(lab.gateway, "sleeper") as other:
                await other.acquired()
                assert other.term == 2
                process.stdin.write(b"\n")
                process.send_signal(signal.SIGCONT)
                assert (await process.stderr.readline()).decode().split() == ["False", "1"]
                assert (await process.stderr.readline()).decode().strip() == "lost"
                assert other.leading
                assert (await spec_of(lab, "sleeper"))["holderIdentity"] == other.identity
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.lab
async def test_a_dead_leader_is_followed_after_the_duration(lab: Lab) -> None:
    """A Lease that nobody renews is free a duration after we first saw it so, whatever the times in it say."""
    async with asyncio.timeout(SOON), candidate(lab.gateway, "dead") as dead:
        await dead.acquired()
        assert dead._task is not None
        dead._task.cancel()
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with candidate(lab.gateway, "dead") as other:
            await other.acquired()
            assert FAST.duration.total_seconds() <= loop.time() - began
            assert other.term == 2
            assert not dead.leading


@pytest.mark.lab
async def test_a_deleted_lease_neither_ends_nor_resets_a_leadership(lab: Lab) -> None:
    """The leader makes a deleted Lease again with its own term; who merely saw it waits as if it were still there."""
    async with asyncio.timeout(2 * SOON), candidate(lab.gateway, "gone") as old:
        await old.acquired()
    async with (
        asyncio.timeout(2 * SOON),
        candidate(lab.gateway, "gone") as leader,
        candidate(lab.gateway, "gone") as other,
    ):
        await asyncio.wait(
            [asyncio.create_task(leader.acquired()), asyncio.create_task(other.acquired())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        leads, waits = (leader, other) if leader.leading else (other, leader)
        assert leads.term == 2
        await lab.gateway.request("DELETE", LEASES.path("kube-system", "gone"))
        while (spec := await _spec_or_none(lab, "gone")) is None:
            pass  # each round is a request
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (leads.identity, 2)
        assert leads.leading
        assert not waits.leading


@pytest.mark.lab
@pytest.mark.parametrize("edited", [8, 1, 0])
async def test_a_leader_whose_term_somebody_edits_is_lost(lab: Lab, edited: int) -> None:
    """Another number in our Lease ends the term, and the next one is above both, in this process and in others."""
    name = f"edited-{edited}"
    async with asyncio.timeout(2 * SOON):
        for _ in range(2):
            async with candidate(lab.gateway, name) as old:
                await old.acquired()
        async with candidate(lab.gateway, name) as leader:
            await leader.acquired()
            assert leader.term == 3
            await _edit(lab, name, leaseTransitions=edited)
            await leader.lost.wait()
            assert (leader.leading, leader.term) == (False, 3)
            # Left alone until the term's work has ended.
            spec = await spec_of(lab, name)
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == (leader.identity, edited)
        spec = await spec_of(lab, name)
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", max(3, edited))
        async with candidate(lab.gateway, name) as following:
            await following.acquired()
            assert following.term == max(3, edited) + 1
            await asyncio.sleep(5 * FAST.retry.total_seconds())
            assert following.leading


@pytest.mark.lab
async def test_a_restored_lease_does_not_bring_back_terms(lab: Lab) -> None:
    """A Lease put back as it once was, with nobody's name and an old number, is followed by a number not yet given."""
    async with asyncio.timeout(2 * SOON):
        for _ in range(2):
            async with candidate(lab.gateway, "restored") as old:
                await old.acquired()
        async with candidate(lab.gateway, "restored") as leader:
            await leader.acquired()
            await _edit(lab, "restored", leaseTransitions=1, holderIdentity="")
            await leader.lost.wait()
        async with candidate(lab.gateway, "restored") as following:
            await following.acquired()
            assert following.term == leader.term + 1 == 4


async def _edit(lab: Lab, name: str, **spec: Any) -> None:
    path = LEASES.path("kube-system", name)
    await lab.gateway.request("PATCH", path, body={"spec": spec}, content_type=MERGE_PATCH)


async def _spec_or_none(lab: Lab, name: str) -> dict[str, Any] | None:
    try:
        return await spec_of(lab, name)
    except errors.NotFound:
        return None


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def echoes(server: Scripted, version: str) -> Any:
    """Answer a write with what it asked for."""

    async def answer(request: Any) -> Any:
        spec = json.loads(server.asked[-1].body)["spec"]
        return await says(200, lease("?") | {"metadata": {"name": "l", "resourceVersion": version}, "spec": spec})(
            request
        )

    return answer


async def test_leading_ends_by_the_clock_alone(tmp_path: Path) -> None:
    """Past the deadline we do not lead, though no task of ours has run since, and lost stays lost."""
    clock = Clock()
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        server.script.extend([says(404, status(404)), echoes(server, "1"), silence()])
        async with candidate(gateway, clock=clock) as election:
            await election.acquired()
            clock.now += 0.99
            assert election.leading
            clock.now += 0.01
            assert not election.leading
            await election.lost.wait()
            clock.now -= 1
            assert not election.leading


async def test_a_leader_that_cannot_renew_is_lost_at_its_deadline(tmp_path: Path) -> None:
    """Renewals that are refused, cut or not answered end the leadership at the deadline, not later."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        server.script.extend(
            [
                says(404, status(404)),
                echoes(server, "1"),
                says(500, status(500)),
                cut(),
                says(429, status(429)),
                silence(),
            ]
        )
        loop = asyncio.get_running_loop()
        async with candidate(gateway) as election:
            await election.acquired()
            began = loop.time()
            await election.lost.wait()
            assert loop.time() - began <= FAST.deadline.total_seconds() + 0.2
            assert election.term == 1


async def test_a_takeover_whose_answer_was_lost_is_confirmed_before_leading(tmp_path: Path) -> None:
    """Whoever does not know whether its write happened reads, and leads only from a confirmed write on."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        election = candidate(gateway)
        mine = lease(election.identity, 7, "9")
        server.script.extend([says(200, lease("", 6)), cut(), says(200, mine), echoes(server, "10")])
        async with election:
            await server.until(lambda: len(server.asked) == 3)
            assert not election.leading
            await election.acquired()
            assert election.term == 7
            renewal = json.loads(server.asked[3].body)
            assert renewal["metadata"] == {"resourceVersion": "9"}
            assert "acquireTime" not in renewal["spec"]


async def test_a_takeover_that_somebody_renumbers_takes_the_next_number(tmp_path: Path) -> None:
    """The number of an unconfirmed takeover counts only while it is the highest: a lower one was set by hand."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        election = candidate(gateway)
        server.script.extend(
            [says(200, lease("", 6)), cut(), says(200, lease(election.identity, 2, "9")), echoes(server, "10")]
        )
        async with election:
            await election.acquired()
            assert election.term == 7


async def test_another_holder_ends_a_leadership(tmp_path: Path) -> None:
    """A renewal that conflicts is followed by a look, and another holder there means lost, at once."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        server.script.extend(
            [says(404, status(404)), echoes(server, "1"), says(409, status(409)), says(200, lease("other", 2))]
        )
        async with candidate(gateway) as election:
            await election.acquired()
            await election.lost.wait()
            assert not election.leading
        # What is not ours is not released.
        assert [asked.method for asked in server.asked] == ["GET", "POST", "PATCH", "GET"]


@pytest.mark.parametrize("term", ["x", None, 2.5])
async def test_a_term_that_cannot_be_read_is_not_zero(tmp_path: Path, term: object) -> None:
    """A Lease with an odd term is not taken over; one without a term counts from 0, as Kubernetes leaves it out."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        server.script.extend([says(200, lease("", term)), echoes(server, "6")])
        async with candidate(gateway) as election:
            await server.until(lambda: len(server.asked) == 2)
            assert server.asked[1].method == ("PATCH" if term is None else "GET")
            if term is None:
                await election.acquired()
                assert election.term == 1
            else:
                assert isinstance(election.problem, errors.ClusterUnavailable)


async def test_missing_rights_are_told_and_leaving_does_not_hang(tmp_path: Path) -> None:
    """Without rights nobody leads, the reason is there to be shown, and the context ends when asked."""
    async with asyncio.timeout(SOON), scripted(tmp_path) as (server, gateway):
        server.script.extend([says(403, status(403, "Forbidden", "no"))] * 2)
        async with candidate(gateway) as election:
            await server.until(lambda: len(server.asked) == 3)
            assert isinstance(election.problem, errors.Forbidden)
            assert not election.leading
        assert election.lost.is_set()


@pytest.mark.parametrize(("deadline", "retry"), [(6, 1), (7, 1), (4, 4)])
def test_timings_that_allow_two_leaders_are_refused(deadline: int, retry: int) -> None:
    """The deadline must lie before the duration, and a retry before the deadline."""
    with pytest.raises(errors.UsageError, match="retry < deadline < duration"):
        Timing(deadline=timedelta(seconds=deadline), retry=timedelta(seconds=retry))
