#!/bin/sh
# Runs a plan on all cores of this machine, or of several, and ends it.
#
#   sh parallel.sh PLAN [SHARES]
#
# JOBS: processes at a time on each machine (default: as many as it has cores).
# HOSTS: a file with one machine a line, as ssh names it. PLAN, sources and
# destination must have the same paths there, or be s3:// addresses.
set -eu
plan=${1:?usage: sh parallel.sh PLAN [SHARES]}
shares=${2:-100}

# A share that fails is tried three times. What fails every time is said by
# "superchunk status", and does not keep the other shares from their work.
seq "$shares" | parallel --jobs "${JOBS:-100%}" ${HOSTS:+--sshloginfile "$HOSTS"} \
  --retries 3 superchunk run "$plan" --task "{}/$shares" --jobs 2 --exit-zero || true

superchunk finish "$plan"
