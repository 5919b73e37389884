import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * Starts an image with the Kafka module of Testcontainers: {@code StartModule IMAGE SUBSTITUTED}. It
 * prints the addresses of the broker, and stops the container at the end of the input.
 */
public final class StartModule {
  public static void main(String[] arguments) throws Exception {
    DockerImageName image =
        DockerImageName.parse(arguments[0]).asCompatibleSubstituteFor(arguments[1]);
    if (arguments[1].startsWith("confluentinc/")) {
      try (ConfluentKafkaContainer kafka = new ConfluentKafkaContainer(image)) {
        serve(kafka, kafka::getBootstrapServers);
      }
    } else {
      try (KafkaContainer kafka = new KafkaContainer(image)) {
        serve(kafka, kafka::getBootstrapServers);
      }
    }
  }

  private static void serve(
      GenericContainer<?> container, java.util.function.Supplier<String> servers)
      throws Exception {
    container.start();
    System.out.println("servers=" + servers.get());
    System.out.flush();
    System.in.read();
  }
}
