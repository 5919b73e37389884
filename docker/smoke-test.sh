#!/bin/sh
# Build the image and check a container: it is healthy, has its topics, does not run as root, can be
# reached from other containers and from the host, and stops within two seconds. Needs Docker.
# With the argument `recipes`, check the other compose files instead. This pulls the images of others.
set -eu
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
    echo "no Docker engine is running: nothing was tested" >&2
    exit 77
fi

project="kafkalite-smoke-$$"
recipe=compose.yaml
compose() { docker compose --project-name "$project" --file "docker/$recipe" "$@"; }
remove() { compose --profile '*' down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1 || true; }
trap remove EXIT

# Fail unless a text contains another one.
contains() {
    case $1 in
        *"$2"*) ;;
        *) echo "$recipe: no $2 in: $1" >&2; exit 1 ;;
    esac
}

# Check the next recipe, without containers of the former one.
begin() {
    remove
    recipe=$1
}

# Print records of a topic; the broker is the service kafkalite.
consume() {
    compose exec -T kafkalite kafka-console-consumer --bootstrap-server localhost:9092 \
        --topic "$1" --from-beginning --max-messages "$2" --timeout-ms 300000
}

check_image() {
    compose up --detach --wait --wait-timeout 30 kafkalite
    echo "healthy, with its topics"

    user=$(compose exec -T kafkalite id -u)
    [ "$user" != 0 ] || { echo "the broker runs as root" >&2; exit 1; }
    echo "runs as user $user"

    contains "$(compose exec -T kafkalite kafka-topics.sh --bootstrap-server localhost:9092 --list)" orders
    echo "kafka-topics.sh lists the topics"

    metadata=$(compose run --rm -T service)
    contains "$metadata" "kafkalite:29092"
    contains "$metadata" 'topic "orders" with 3 partitions'
    echo "reached from another container as kafkalite:29092"

    contains "$(compose run --rm -T --no-deps service -b kafkalite:9092 -L 2>/dev/null || true)" "localhost:9092"
    echo "clients of the host get localhost:9092"

    container=$(compose ps --quiet kafkalite)
    started=$(date +%s)
    docker stop --time 10 "$container" >/dev/null
    [ $(($(date +%s) - started)) -le 2 ] || { echo "slow to stop" >&2; exit 1; }
    [ "$(docker inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] || { echo "the broker did not stop cleanly" >&2; exit 1; }
    echo "stopped cleanly"
}

check_recipes() {
    begin compose.three-nodes.yaml
    contains "$(compose run --rm -T service)" "3 brokers"
    compose exec -T kafkalite kafkalite node stop 2
    contains "$(compose run --rm -T service)" "2 brokers"
    echo "$recipe: a node stops"

    begin compose.cluster.yaml
    contains "$(compose run --rm -T service)" "3 brokers"
    compose stop kafka-2
    contains "$(compose run --rm --no-deps -T service)" "2 brokers"
    echo "$recipe: a container stops"

    begin compose.secured.yaml
    contains "$(compose run --rm -T password-client)" 'topic "orders" with 3 partitions'
    contains "$(compose run --rm -T token-client)" "PartitionCount: 3"
    echo "$recipe: clients log in with a password and with a token"

    begin compose.capture.yaml
    contains "$(compose run --rm -T service)" "two apples"
    compose stop --timeout 10 capture
    contains "$(compose run --rm -T show)" Produce
    compose up --detach --wait --wait-timeout 60 stand-in
    contains "$(compose exec -T stand-in kafka-console-consumer --bootstrap-server localhost:9092 \
        --topic orders --from-beginning --max-messages 1)" "two apples"
    echo "$recipe: the stand-in has the recorded records of a real Kafka"

    begin compose.connect.yaml
    compose run --rm -T connector
    contains "$(consume orders 2)" "a pear"
    echo "$recipe: the connector copies its file"

    begin compose.ui.yaml
    compose up --detach --wait --wait-timeout 180 ui
    contains "$(compose exec -T ui wget -q -O - http://localhost:8080/api/clusters/kafkalite/topics)" orders
    echo "$recipe: the user interface shows the topics"

    begin compose.spark.yaml
    compose up --detach orders
    echo "two apples" | compose exec -T kafkalite kafka-console-producer \
        --bootstrap-server localhost:9092 --topic orders
    contains "$(consume orders-seen 1)" "two apples"
    echo "$recipe: the stream writes what it reads"
}

compose build kafkalite
case ${1:-image} in
    image) check_image ;;
    recipes) check_recipes ;;
    *) echo "usage: $0 [image|recipes]" >&2; exit 2 ;;
esac
