// Starts an image with the Kafka module of Testcontainers: `node start-module.js IMAGE`. It
// prints the address of the broker, and stops the container at the end of the input.
"use strict";

const { KafkaContainer } = require("@testcontainers/kafka");

async function main() {
  const started = await new KafkaContainer(process.argv[2]).withKraft().start();
  console.log(`servers=${started.getHost()}:${started.getMappedPort(9093)}`);
  await new Promise((resolve) => process.stdin.once("data", resolve));
  await started.stop();
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
