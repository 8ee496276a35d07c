"""Ask a PostgreSQL server as a person does, by psql and a password."""

from __future__ import annotations

import subprocess
from pathlib import Path

from k8s.lab.postgres import Login


def ask(programs: Path, port: int, login: Login, statement: str, *, database: str = "postgres") -> str:
    """Give the answer, bare; if it is refused, the refusal."""
    where = f"host=127.0.0.1 port={port} user={login.user} dbname={database}"
    asked = subprocess.run(
        [programs / "psql", "--no-psqlrc", "--tuples-only", "--no-align", where, "--command", statement],
        env={"PGPASSWORD": login.password},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return asked.stdout.strip()
