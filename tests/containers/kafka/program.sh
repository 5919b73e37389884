#!/bin/sh
# Runs the class of the link's name on Kafka's jars.
case ${0##*/} in
  kafka-broker-api-versions.sh) class=org.apache.kafka.tools.BrokerApiVersionsCommand ;;
  kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
  connect-distributed.sh) class=org.apache.kafka.connect.cli.ConnectDistributed ;;
esac
exec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC $KAFKA_OPTS \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' "$class" "$@"
