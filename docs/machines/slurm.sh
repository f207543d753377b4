#!/bin/bash
# One share of a plan, as a task of a Slurm array:
#
#   run=$(sbatch --parsable --export=ALL,PLAN=/shared/plan.json slurm.sh)
#   sbatch --dependency=afterany:"$run" --wrap "superchunk finish /shared/plan.json"
#
# superchunk reads from Slurm's variables which share this is, and of how many.
#SBATCH --job-name=superchunk
#SBATCH --array=1-100
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu

superchunk run "${PLAN:?where the plan lies}" --jobs "${SLURM_CPUS_PER_TASK:-2}" ${SHARES:+--shares "$SHARES"}
