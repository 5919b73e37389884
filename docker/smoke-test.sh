#!/bin/sh
# Build the image and try it: healthy, its topics declared, not root, addresses right from inside
# the network and from the host, and stopped within two seconds. Needs a Docker engine.
set -eu
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
    echo "no Docker engine runs here: nothing is tested" >&2
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

told=$(compose run --rm -T service)
echo "$told" | grep -q "kafkalite:29092" || { echo "inside, clients are told: $told" >&2; exit 1; }
echo "$told" | grep -q 'topic "orders" with 3 partitions' || { echo "no topic: $told" >&2; exit 1; }
echo "reached from another container as kafkalite:29092"

told=$(compose run --rm -T --no-deps service -b kafkalite:9092 -L 2>/dev/null || true)
echo "$told" | grep -q "localhost:9092" || { echo "the host is told: $told" >&2; exit 1; }
echo "the host is told localhost:9092"

container=$(compose ps --quiet kafkalite)
begun=$(date +%s)
docker stop --time 10 "$container" >/dev/null
[ $(($(date +%s) - begun)) -le 2 ] || { echo "slow to stop" >&2; exit 1; }
[ "$(docker inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] || { echo "unclean" >&2; exit 1; }
echo "stopped cleanly"
