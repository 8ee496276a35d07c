"""Find out who holds the device, and see them go."""

from __future__ import annotations

from activities.effect import effect
from activities.errors import waiting
from activities.guard import own_record
from activities.polling import SELDOM, SOON, until_next_look
from k8s.records import Records
from k8s.slots import EvictionSlots
from k8s.users import UserLists, changed
from sickbay.model.contracts import Activity, ListUsers, Users
from sickbay.model.incident import User, UserState


class UserActivities:
    """Who holds the device."""

    def __init__(self, records: Records, users: UserLists, slots: EvictionSlots) -> None:
        self._records = records
        self._users = users
        self._slots = slots

    @effect(Activity.LIST_USERS)
    async def list_users(self, step: ListUsers) -> Users:
        """List the users, joined with the earlier ones.

        Safe to repeat because all it changes is to give back eviction slots of pods that are gone, which may be done
        twice.
        """
        return Users(users=await self._look(step))

    @effect(Activity.AWAIT_USERS)
    async def await_users(self, step: ListUsers) -> Users:
        """List the users once something differs from what the input says of them; until then be called again.

        Safe to repeat because it is `list_users`.
        """
        users = await self._look(step)
        if not changed(step.users, users):
            leaving = any(u.state is UserState.EVICTED or (u.terminating and u.state.holds) for u in users)
            coming = any(u.state is UserState.GONE and u.evicted for u in users)
            raise waiting("no user came, went, or changed", until_next_look(SOON if leaving or coming else SELDOM))
        return Users(users=users)

    async def _look(self, step: ListUsers) -> tuple[User, ...]:
        await own_record(self._records, step.target)
        users = await self._users.users(step.target.device, step.users)
        held = {user.uid for user in step.users if user.state.holds}
        gone = [user.uid for user in users if user.uid in held and not user.state.holds]
        if gone:
            await self._slots.give_back(*gone)
        return users
