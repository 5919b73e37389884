package org.apache.kafka.common.test;

import java.io.File;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.function.Supplier;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.ConnectionQuotas;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Objects of Kafka's brokers and controllers whose methods ask the nodes of kafkalite.
 *
 * <p>A method that no client can ask raises UnsupportedOperationException.
 */
final class KafkaliteServers implements AutoCloseable {
    private final KafkaliteProcess process;
    private final Supplier<Admin> newAdmin;
    private Admin admin;

    KafkaliteServers(KafkaliteProcess process, Supplier<Admin> newAdmin) {
        this.process = process;
        this.newAdmin = newAdmin;
    }

    private synchronized Admin admin() {
        if (admin == null) {
            admin = newAdmin.get();
        }
        return admin;
    }

    @Override
    public synchronized void close() {
        if (admin != null) {
            admin.close();
            admin = null;
        }
    }

    private interface Method {
        Object call(InvocationOnMock invocation) throws Exception;
    }

    private static <T> T object(Class<T> type, Map<String, Method> methods) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(invocation -> {
            String name = invocation.getMethod().getName();
            Method method = methods.get(name);
            if (method != null) {
                return method.call(invocation);
            }
            if (name.equals("toString")) {
                return type.getSimpleName() + " of kafkalite";
            }
            throw new UnsupportedOperationException(
                type.getSimpleName() + "." + name + " is inside of the broker");
        }));
    }

    BrokerServer broker(int id) {
        Map<String, Method> methods = new HashMap<>();
        methods.put("startup", call -> {
            process.startNode(id);
            return null;
        });
        methods.put("shutdown", call -> {
            process.stopNode(id);
            return null;
        });
        // shutdown returns when the node is stopped.
        methods.put("awaitShutdown", call -> null);
        methods.put("isShutdown", call -> !process.isRunning(id));
        // Kafka's broker remains in this state after its shutdown.
        methods.put("brokerState", call ->
            process.isRunning(id) ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN);
        methods.put("config", call -> process.config(id));
        methods.put("boundPort", call -> process.port(id));
        methods.put("socketServer", call -> socketServer(id));
        methods.put("metadataCache", call -> metadataCache());
        methods.put("replicaManager", call -> replicaManager(id));
        methods.put("logManager", call -> logManager(id));
        methods.put("groupCoordinator", call -> groupCoordinator());
        methods.put("dataPlaneRequestProcessor", call ->
            object(KafkaApis.class, Map.of("brokerId", brokerId -> id)));
        methods.put("sharedServer", call -> sharedServer());
        return object(BrokerServer.class, methods);
    }

    ControllerServer controller(int id) {
        Map<String, Method> methods = new HashMap<>();
        methods.put("config", call -> process.config(id));
        methods.put("socketServer", call -> socketServer(id));
        methods.put("raftManager", call -> raftManager());
        methods.put("controller", call -> object(Controller.class, Map.of(
            "findAllTopicIds", find -> CompletableFuture.completedFuture(topicIds()))));
        methods.put("authorizerPlugin", call -> Option.apply(
            Plugin.wrapInstance(authorizer(), null, "authorizer.class.name")));
        return object(ControllerServer.class, methods);
    }

    private SocketServer socketServer(int id) {
        return object(SocketServer.class, Map.of(
            "boundPort", call -> process.port(id),
            "config", call -> process.config(id),
            "connectionQuotas", call -> object(ConnectionQuotas.class, Map.of(
                "connectionRateForIp", rate -> connectionRate(rate.getArgument(0))))));
    }

    private int connectionRate(InetAddress address) throws Exception {
        Map<ClientQuotaEntity, Map<String, Double>> quotas =
            admin().describeClientQuotas(ClientQuotaFilter.all()).entities().get();
        for (String ip : Arrays.asList(address.getHostAddress(), null)) {
            Map<String, Double> ofIp = quotas.get(
                new ClientQuotaEntity(Collections.singletonMap(ClientQuotaEntity.IP, ip)));
            if (ofIp != null) {
                return ofIp.get(QuotaConfig.IP_CONNECTION_RATE_OVERRIDE_CONFIG).intValue();
            }
        }
        return QuotaConfig.IP_CONNECTION_RATE_DEFAULT;
    }

    /** No node of kafkalite has a loader of metadata: all know a change when it is answered. */
    private static SharedServer sharedServer() {
        return object(SharedServer.class, Map.of("loader", call -> null));
    }

    private static KafkaRaftManager<?> raftManager() {
        RaftLog log = object(RaftLog.class, Map.of("endOffset", call -> new LogOffsetMetadata(0)));
        return object(KafkaRaftManager.class, Map.of("raftLog", call -> log));
    }

    private static GroupCoordinator groupCoordinator() {
        Properties properties = new Properties();
        properties.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
        return object(GroupCoordinator.class, Map.of(
            "groupMetadataTopicConfigs", call -> properties));
    }

    private KRaftMetadataCache metadataCache() {
        Map<String, Method> methods = new HashMap<>();
        methods.put("numPartitions", call ->
            topic(call.getArgument(0)).map(topic -> topic.partitions().size()));
        methods.put("getLeaderAndIsr", call ->
            partition(call.getArgument(0), call.getArgument(1)).map(partition ->
                new LeaderAndIsr(idOf(partition.leader()), ids(partition.isr()))));
        methods.put("getAliveBrokerNodes", call -> nodes());
        methods.put("getAliveBrokerNode", call ->
            nodes().stream().filter(node -> node.id() == (int) call.getArgument(0)).findFirst());
        return object(KRaftMetadataCache.class, methods);
    }

    private ReplicaManager replicaManager(int id) {
        Map<String, Method> methods = new HashMap<>();
        methods.put("metadataCache", call -> metadataCache());
        methods.put("logManager", call -> logManager(id));
        methods.put("localLog", call -> log(id, call.getArgument(0)));
        methods.put("onlinePartition", call ->
            hasReplica(id, call.getArgument(0))
                ? Option.apply(partitionOf(id, call.getArgument(0))) : Option.empty());
        return object(ReplicaManager.class, methods);
    }

    private Partition partitionOf(int id, TopicPartition name) {
        return object(Partition.class, Map.of("leaderIdIfLocal", call ->
            partition(name.topic(), name.partition())
                .filter(partition -> idOf(partition.leader()) == id)
                .<Option<?>>map(partition -> Option.apply(id)).orElse(Option.empty())));
    }

    private LogManager logManager(int id) {
        return object(LogManager.class, Map.of(
            "getLog", call -> log(id, call.getArgument(0)),
            // The second argument of Scala's getLog: whether the log is a future one.
            "getLog$default$2", call -> false,
            "liveLogDirs", call -> CollectionConverters.asScala(
                process.config(id).logDirs().stream().map(File::new).toList())));
    }

    private Option<UnifiedLog> log(int id, TopicPartition partition) throws Exception {
        if (!hasReplica(id, partition)) {
            return Option.empty();
        }
        return Option.apply(object(UnifiedLog.class, Map.of(
            "highWatermark", call -> endOffset(partition),
            "logEndOffset", call -> endOffset(partition),
            "config", call -> logConfig(partition.topic()))));
    }

    private boolean hasReplica(int id, TopicPartition partition) throws Exception {
        return admin().describeLogDirs(List.of(id)).descriptions().get(id).get().values().stream()
            .anyMatch(directory -> directory.replicaInfos().containsKey(partition));
    }

    private long endOffset(TopicPartition partition) throws Exception {
        return admin().listOffsets(Map.of(partition, OffsetSpec.latest()))
            .partitionResult(partition).get().offset();
    }

    private LogConfig logConfig(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> values = new HashMap<>();
        admin().describeConfigs(List.of(resource)).values().get(resource).get().entries()
            .forEach(entry -> values.put(entry.name(), entry.value()));
        return new LogConfig(values);
    }

    private Map<String, Uuid> topicIds() throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        admin().listTopics(new ListTopicsOptions().listInternal(true)).listings().get()
            .forEach(listing -> ids.put(listing.name(), listing.topicId()));
        return ids;
    }

    private Optional<TopicDescription> topic(String name) throws Exception {
        try {
            return Optional.of(
                admin().describeTopics(List.of(name)).topicNameValues().get(name).get());
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw error;
        }
    }

    private Optional<TopicPartitionInfo> partition(String topic, int index) throws Exception {
        return topic(topic).flatMap(description -> description.partitions().stream()
            .filter(partition -> partition.partition() == index).findFirst());
    }

    private List<Node> nodes() throws Exception {
        return new ArrayList<>(admin().describeCluster().nodes().get());
    }

    private static int idOf(Node node) {
        return node == null ? Node.noNode().id() : node.id();
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private Authorizer authorizer() {
        return object(Authorizer.class, Map.of(
            "acls", call -> admin().describeAcls(call.getArgument(0)).values().get(),
            "createAcls", call -> this.<AclBinding>arguments(call).stream().map(acl ->
                result(admin().createAcls(List.of(acl)).all(),
                    nothing -> AclCreateResult.SUCCESS, AclCreateResult::new)).toList(),
            "deleteAcls", call -> this.<AclBindingFilter>arguments(call).stream().map(filter ->
                result(admin().deleteAcls(List.of(filter)).all(),
                    bindings -> new AclDeleteResult(bindings.stream()
                        .map(AclDeleteResult.AclBindingDeleteResult::new).toList()),
                    AclDeleteResult::new)).toList()));
    }

    private <T> List<T> arguments(InvocationOnMock call) {
        return call.getArgument(1);
    }

    private static <T, R> CompletableFuture<R> result(
            KafkaFuture<T> future, Function<T, R> success, Function<ApiException, R> failure) {
        return future.toCompletionStage().toCompletableFuture().handle((value, error) -> {
            if (error == null) {
                return success.apply(value);
            }
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return failure.apply((ApiException) cause);
        });
    }
}
