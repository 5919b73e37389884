import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/** Stores no descriptions of topologies, and fails to delete them. */
public final class FailingPlugin implements StreamsGroupTopologyDescriptionPlugin {
    @Override
    public CompletableFuture<Void> setTopology(
            String group, int epoch, StreamsGroupTopologyDescription description) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        return CompletableFuture.failedFuture(new IllegalStateException("not deleted: " + group));
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    public void close() {
    }
}
