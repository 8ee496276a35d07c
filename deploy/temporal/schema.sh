#!/bin/sh
# Make Temporal's two databases and bring their tables up to date. Safe to repeat: what is there stays.
# SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD say where; the tool reads them itself.
set -eu

renew() {
    temporal-sql-tool --db "$1" create
    temporal-sql-tool --db "$1" setup-schema -v 0.0
    temporal-sql-tool --db "$1" update-schema --schema-name "$2"
}

renew temporal postgresql/v12/temporal
renew temporal_visibility postgresql/v12/visibility
