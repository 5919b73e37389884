#!/bin/sh
# Build the image and check a container: it is healthy, has its topics, does not run as root, can be
# reached from other containers and from the host, and stops within two seconds. Needs Docker.
set -eu
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
    echo "no Docker engine is running: nothing was tested" >&2
    exit 77
fi

project="kafkalite-smoke-$$"
compose() { docker compose --project-name "$project" --file docker/compose.yaml "$@"; }
trap 'compose down --volumes --timeout 5 >/dev/null 2>&1' EXIT

compose build kafkalite
compose up --detach --wait --wait-timeout 30 kafkalite
echo "healthy, with its topics"

user=$(compose exec -T kafkalite id -u)
[ "$user" != 0 ] || { echo "the broker runs as root" >&2; exit 1; }
echo "runs as user $user"

compose exec -T kafkalite kafka-topics.sh --bootstrap-server localhost:9092 --list | grep -qx orders ||
    { echo "kafka-topics.sh does not list the topics" >&2; exit 1; }
echo "kafka-topics.sh lists the topics"

metadata=$(compose run --rm -T service)
echo "$metadata" | grep -q "kafkalite:29092" || { echo "wrong addresses inside: $metadata" >&2; exit 1; }
echo "$metadata" | grep -q 'topic "orders" with 3 partitions' || { echo "no topic: $metadata" >&2; exit 1; }
echo "reached from another container as kafkalite:29092"

metadata=$(compose run --rm -T --no-deps service -b kafkalite:9092 -L 2>/dev/null || true)
echo "$metadata" | grep -q "localhost:9092" || { echo "wrong addresses for the host: $metadata" >&2; exit 1; }
echo "clients of the host get localhost:9092"

container=$(compose ps --quiet kafkalite)
started=$(date +%s)
docker stop --time 10 "$container" >/dev/null
[ $(($(date +%s) - started)) -le 2 ] || { echo "slow to stop" >&2; exit 1; }
[ "$(docker inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] || { echo "the broker did not stop cleanly" >&2; exit 1; }
echo "stopped cleanly"
