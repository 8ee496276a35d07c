#!/bin/sh
# Make the namespace if it is not there. Safe to repeat: one that is there stays as it is.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; RETENTION, how long histories of ended workflows are kept.
set -eu

# The port is open some time before the server can answer.
tries=0
until temporal operator cluster health >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -ge 60 ]; then
        echo "error: Temporal at $TEMPORAL_ADDRESS does not answer; look at the log of service temporal" >&2
        exit 1
    fi
    sleep 1
done

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
