// Starts an image with the Kafka module of Testcontainers: `node start-module.js IMAGE kraft`, or
// with `zookeeper`, the default of the module. It prints the address of the broker, and stops the
// container at the end of the input.
"use strict";

const { KafkaContainer } = require("@testcontainers/kafka");

async function main() {
  const [image, mode] = process.argv.slice(2);
  const container = new KafkaContainer(image);
  const started = await (mode === "kraft" ? container.withKraft() : container).start();
  console.log(`servers=${started.getHost()}:${started.getMappedPort(9093)}`);
  await new Promise((resolve) => process.stdin.once("data", resolve));
  await started.stop();
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
