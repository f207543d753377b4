#!/bin/sh
# Runs a plan as an array of AWS Batch, and ends it:
#
#   sh aws-batch.sh s3://bucket/plan QUEUE [SHARES]
#
# superchunk reads from the variables of Batch which share a job is, and of how many.
set -eu
plan=${1:?usage: sh aws-batch.sh PLAN QUEUE [SHARES]}
queue=${2:?usage: sh aws-batch.sh PLAN QUEUE [SHARES]}
shares=${3:-100}

aws batch register-job-definition --cli-input-json "file://$(dirname "$0")/aws-batch.json" > /dev/null
run=$(aws batch submit-job --job-name superchunk-run --job-queue "$queue" \
  --job-definition superchunk --array-properties "size=$shares" \
  --container-overrides "command=run,$plan,--jobs,2,--exit-zero" --query jobId --output text)
aws batch submit-job --job-name superchunk-finish --job-queue "$queue" \
  --job-definition superchunk --depends-on "jobId=$run" \
  --container-overrides "command=finish,$plan"
