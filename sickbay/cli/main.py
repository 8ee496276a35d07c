"""The command ``sickbay``: finds the sub-command, runs it, and turns errors into one line and an exit status.

Sub-commands are imported when they are called, so that ``--help`` and completion stay fast.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click
from click.shell_completion import shell_complete

from sickbay.cli.origin import refuse_foreign_packages
from sickbay.errors import SickbayError

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells give it."""

BROKEN_PIPE: Final = 141
"""Exit status when nobody reads the output any more, as shells give it."""

COMPLETE_VARIABLE: Final = "_SICKBAY_COMPLETE"
"""Set by a shell that completes a command line of ours: see ``sickbay completion``."""

BUG: Final = 70
"""Exit status of an error that is not ours by intent: ``EX_SOFTWARE`` of sysexits."""


class _Command(NamedTuple):
    """Where a sub-command is, and what the list of commands says of it."""

    module: str
    help: str


COMMANDS: Final = {
    "run": _Command("sickbay.cli.run", "Watcher and worker in one process: the normal way."),
    "watcher": _Command("sickbay.cli.run", "Detect, admit, record and fence; start incidents."),
    "worker": _Command("sickbay.cli.run", "Carry incidents out."),
    "get": _Command("sickbay.cli.get", "List incidents, devices or quarantines."),
    "describe": _Command("sickbay.cli.describe", "Show all that is known of an incident or a quarantine."),
    "explain": _Command("sickbay.cli.explain", "Say why a device is where it is, and what it waits for."),
    "events": _Command("sickbay.cli.events", "Tell what happened in an incident, step by step."),
    "doctor": _Command("sickbay.cli.doctor", "Find what keeps Sickbay from its work, and say how to mend it."),
    "install": _Command("sickbay.cli.install", "Put Sickbay's objects into a cluster."),
    "quarantine": _Command("sickbay.cli.quarantine", "Take a device out of service because you say so."),
    "pause": _Command("sickbay.cli.command", "Stop one incident; the fence stays."),
    "resume": _Command("sickbay.cli.command", "End the pause of one incident."),
    "extend": _Command("sickbay.cli.command", "Keep a device out of service for longer."),
    "approve": _Command("sickbay.cli.command", "Let a held incident act, or have one that asks try again."),
    "retire": _Command("sickbay.cli.command", "End an incident and leave its device fenced for good."),
    "probe-now": _Command("sickbay.cli.command", "Do not let a device rest any longer before its probe."),
    "disown": _Command("sickbay.cli.disown", "In an emergency: give a device back that nobody has tried."),
    "policy": _Command("sickbay.cli.policy", "Check policy files."),
    "lab": _Command("sickbay.cli.lab", "A real control plane on this machine, to try things on."),
    "demo": _Command("sickbay.cli.demo", "One incident from fault to release, on a lab of its own."),
    "completion": _Command("sickbay.cli.completion", "Complete commands and names in your shell."),
}


class _Lazy(click.Group):
    """A group that imports a sub-command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's interface
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, envvar="SICKBAY_DEBUG", help="Show tracebacks of errors.")
@click.version_option(package_name="sickbay", message="%(prog)s %(version)s")
def sickbay(*, debug: bool) -> None:
    """Take unhealthy devices of a Kubernetes cluster out of service, and bring them back when they have proved well."""


def main() -> NoReturn:
    """Run one command and leave the process with its exit status."""
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        _leave(shell_complete(sickbay, {}, "sickbay", COMPLETE_VARIABLE, instruction))
    _leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:  # noqa: PLR0911 - one for each kind of end
    """Run one command and give its exit status; every error ends here.

    Args:
        arguments: without the program's name.
    """
    debug = False
    try:
        refuse_foreign_packages()
        with sickbay.make_context(_called(), arguments) as context:
            debug = context.params["debug"]
            result = sickbay.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except SickbayError as error:
        return _told(error, str(error), error.exit_status, debug=debug)
    except Exception as error:  # noqa: BLE001 - the process's edge: people get a line, not a traceback
        text = f"this is a bug, please report it: {type(error).__name__}: {error}; sickbay --debug … shows where"
        return _told(error, text, BUG, debug=debug)
    return result if isinstance(result, int) else 0


def _called() -> str:
    """Name the program in help as it was called: kubectl finds it as ``kubectl-sickbay``."""
    return "kubectl sickbay" if Path(sys.argv[0]).name == "kubectl-sickbay" else "sickbay"


def _told(error: Exception, text: str, status: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    for line in text.splitlines():
        click.secho(f"error: {line}", err=True, fg="red")
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once: with the Temporal SDK loaded the interpreter may abort in its own shutdown."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody reads it any more
            status = status or 1
    os._exit(status)
