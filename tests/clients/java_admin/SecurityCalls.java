import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.clients.admin.AlterUserScramCredentialsOptions;
import org.apache.kafka.clients.admin.CreateAclsOptions;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DeleteAclsOptions;
import org.apache.kafka.clients.admin.DescribeAclsOptions;
import org.apache.kafka.clients.admin.DescribeClientQuotasOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeUserScramCredentialsOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** Calls about ACLs, quotas, SCRAM credentials and delegation tokens. */
final class SecurityCalls {
    private static final String USER = "admin-user";
    private static final KafkaPrincipal BOB = new KafkaPrincipal("User", "bob");
    private static final KafkaPrincipal CAROL = new KafkaPrincipal("User", "carol");

    private final AdminSweep sweep;
    private final Admin admin;
    private final String sasl;

    SecurityCalls(AdminSweep sweep, String sasl) {
        this.sweep = sweep;
        this.admin = sweep.admin;
        this.sasl = sasl;
    }

    void run() throws Exception {
        acls();
        quotas();
        credentials();
        try (Admin authenticated = sweep.client(Map.of(
                "bootstrap.servers", sasl,
                "security.protocol", "SASL_PLAINTEXT",
                "sasl.mechanism", "PLAIN",
                "sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                        + "username=\"admin\" password=\"admin-secret\";"))) {
            tokens(authenticated);
        }
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern,
            String principal, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
                new AccessControlEntry(principal, "*", operation, permission));
    }

    private static AclBindingFilter acls(ResourceType type, String name, PatternType pattern) {
        return new AclBindingFilter(new ResourcePatternFilter(type, name, pattern),
                AccessControlEntryFilter.ANY);
    }

    private void acls() throws Exception {
        AclBinding literal = acl(ResourceType.TOPIC, "admin-acl", PatternType.LITERAL,
                "User:admin-user", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding prefixed = acl(ResourceType.GROUP, "admin-", PatternType.PREFIXED,
                "User:admin-user", AclOperation.ALL, AclPermissionType.DENY);
        AclBinding cluster = acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL,
                "User:admin-user", AclOperation.ALTER, AclPermissionType.ALLOW);
        sweep.show("createAcls", () -> admin.createAcls(List.of(literal, prefixed)));
        sweep.show("createAcls timeoutMs", () -> admin.createAcls(
                List.of(cluster, literal), AdminSweep.timed(new CreateAclsOptions())));
        sweep.show("createAcls refused", () -> admin.createAcls(List.of(
                acl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:a",
                        AclOperation.READ, AclPermissionType.ALLOW),
                acl(ResourceType.CLUSTER, "other", PatternType.LITERAL, "User:a",
                        AclOperation.ALTER, AclPermissionType.ALLOW),
                acl(ResourceType.TOPIC, "admin-acl", PatternType.LITERAL, "nobody",
                        AclOperation.READ, AclPermissionType.ALLOW))));
        AdminSweep.await(() -> AdminSweep.get(admin.describeAcls(
                acls(ResourceType.CLUSTER, null, PatternType.ANY)).values()).size() == 1);
        sweep.show("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY));
        sweep.show("describeAcls matching a name", () -> admin.describeAcls(
                acls(ResourceType.ANY, "admin-acl", PatternType.MATCH),
                AdminSweep.timed(new DescribeAclsOptions())));
        sweep.show("describeAcls of none", () -> admin.describeAcls(
                acls(ResourceType.TOPIC, "admin-none", PatternType.LITERAL)));
        sweep.show("deleteAcls", () -> admin.deleteAcls(List.of(
                acls(ResourceType.TOPIC, "admin-acl", PatternType.LITERAL),
                acls(ResourceType.TOPIC, "admin-none", PatternType.LITERAL))));
        sweep.show("deleteAcls timeoutMs", () -> admin.deleteAcls(
                List.of(acls(ResourceType.ANY, null, PatternType.ANY)),
                AdminSweep.timed(new DeleteAclsOptions())));
    }

    private static ClientQuotaAlteration quota(Map<String, String> entity, String key, Double value) {
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity),
                List.of(new ClientQuotaAlteration.Op(key, value)));
    }

    private void quotas() throws Exception {
        ClientQuotaAlteration user = quota(Map.of("user", USER), "producer_byte_rate", 1024.0);
        ClientQuotaAlteration client = quota(
                Map.of("user", USER, "client-id", "admin-client"), "request_percentage", 50.0);
        ClientQuotaAlteration ip = quota(Map.of("ip", "192.0.2.1"), "connection_creation_rate", 5.0);
        sweep.show("alterClientQuotas validateOnly", () -> admin.alterClientQuotas(List.of(user),
                AdminSweep.timed(new AlterClientQuotasOptions().validateOnly(true))));
        sweep.show("alterClientQuotas", () ->
                admin.alterClientQuotas(List.of(user, client, ip)));
        sweep.show("alterClientQuotas refused", () -> admin.alterClientQuotas(List.of(
                quota(Map.of("user", USER), "no_such_rate", 1.0),
                quota(Map.of("ip", "192.0.2.2"), "producer_byte_rate", 1.0),
                quota(Map.of("user", "other"), "producer_byte_rate", -1.0),
                quota(Map.of("planet", "earth"), "producer_byte_rate", 1.0))));
        ClientQuotaFilter ofUser = ClientQuotaFilter.contains(
                List.of(ClientQuotaFilterComponent.ofEntity("user", USER)));
        AdminSweep.await(() -> AdminSweep.get(
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size() == 3);
        sweep.show("describeClientQuotas", () -> admin.describeClientQuotas(ofUser));
        sweep.show("describeClientQuotas of exactly a user", () -> admin.describeClientQuotas(
                ClientQuotaFilter.containsOnly(
                        List.of(ClientQuotaFilterComponent.ofEntity("user", USER))),
                AdminSweep.timed(new DescribeClientQuotasOptions())));
        sweep.show("describeClientQuotas of a type", () -> admin.describeClientQuotas(
                ClientQuotaFilter.contains(
                        List.of(ClientQuotaFilterComponent.ofEntityType("ip")))));
        sweep.show("describeClientQuotas of an unknown type", () -> admin.describeClientQuotas(
                ClientQuotaFilter.contains(
                        List.of(ClientQuotaFilterComponent.ofEntityType("planet")))));
        sweep.show("alterClientQuotas removal", () -> admin.alterClientQuotas(List.of(
                quota(Map.of("user", USER), "producer_byte_rate", null),
                quota(Map.of("user", USER, "client-id", "admin-client"), "request_percentage", null),
                quota(Map.of("ip", "192.0.2.1"), "connection_creation_rate", null))));
    }

    private void credentials() throws Exception {
        ScramCredentialInfo small = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        ScramCredentialInfo large = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192);
        sweep.show("alterUserScramCredentials", () -> admin.alterUserScramCredentials(
                List.of(new UserScramCredentialUpsertion(USER, small, "secret"))));
        sweep.show("alterUserScramCredentials timeoutMs", () -> admin.alterUserScramCredentials(
                List.of(new UserScramCredentialUpsertion(USER, large, "secret")),
                AdminSweep.timed(new AlterUserScramCredentialsOptions())));
        List<UserScramCredentialAlteration> refused = List.of(
                new UserScramCredentialDeletion("admin-nobody", ScramMechanism.SCRAM_SHA_256),
                new UserScramCredentialUpsertion("admin-few",
                        new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1), "secret"),
                new UserScramCredentialUpsertion("", small, "secret"));
        sweep.show("alterUserScramCredentials refused", () ->
                admin.alterUserScramCredentials(refused));
        AdminSweep.await(() -> AdminSweep.get(admin.describeUserScramCredentials(List.of(USER))
                .description(USER)).credentialInfos().size() == 2);
        sweep.show("describeUserScramCredentials", () -> admin.describeUserScramCredentials());
        sweep.show("describeUserScramCredentials of a user", () ->
                admin.describeUserScramCredentials(List.of(USER)).description(USER));
        sweep.show("describeUserScramCredentials unknown", () ->
                admin.describeUserScramCredentials(List.of("admin-nobody"),
                        AdminSweep.timed(new DescribeUserScramCredentialsOptions()))
                        .description("admin-nobody"));
        sweep.show("alterUserScramCredentials deletion", () -> admin.alterUserScramCredentials(
                Arrays.asList(
                        new UserScramCredentialDeletion(USER, ScramMechanism.SCRAM_SHA_256))));
    }

    /** The properties of a token that do not differ between runs. */
    private static Object shown(DelegationToken token) {
        return Map.of(
                "owner", token.tokenInfo().ownerAsString(),
                "requester", token.tokenInfo().tokenRequester().toString(),
                "renewers", AdminSweep.names(token.tokenInfo().renewersAsString()),
                "lifetimeMs",
                token.tokenInfo().maxTimestamp() - token.tokenInfo().issueTimestamp(),
                "hmacBytes", token.hmac().length,
                "hasId", !token.tokenInfo().tokenId().isEmpty());
    }

    private void tokens(Admin user) throws Exception {
        sweep.show("createDelegationToken", () ->
                shown(AdminSweep.get(user.createDelegationToken().delegationToken())));
        DelegationToken[] created = new DelegationToken[1];
        CreateDelegationTokenOptions options = AdminSweep.timed(new CreateDelegationTokenOptions()
                .owner(BOB).renewers(List.of(CAROL)).maxLifetimeMs(3_600_000));
        sweep.show("createDelegationToken with options", () -> {
            created[0] = AdminSweep.get(user.createDelegationToken(options).delegationToken());
            return shown(created[0]);
        });
        sweep.show("createDelegationToken refused", () -> user.createDelegationToken(
                new CreateDelegationTokenOptions()
                        .renewers(List.of(new KafkaPrincipal("Group", "g")))));
        sweep.show("createDelegationToken without SASL", () -> admin.createDelegationToken());
        AdminSweep.await(() ->
                AdminSweep.get(user.describeDelegationToken().delegationTokens()).size() == 2);
        sweep.show("describeDelegationToken", () -> AdminSweep.get(
                user.describeDelegationToken().delegationTokens()).stream()
                .map(token -> String.valueOf(new java.util.TreeMap<>((Map<?, ?>) shown(token))))
                .sorted().toList());
        sweep.show("describeDelegationToken of owners", () -> AdminSweep.get(
                user.describeDelegationToken(AdminSweep.timed(
                        new DescribeDelegationTokenOptions().owners(List.of(BOB))))
                        .delegationTokens()).stream().map(SecurityCalls::shown).toList());
        byte[] hmac = created[0] == null ? new byte[0] : created[0].hmac();
        sweep.show("renewDelegationToken", () ->
                AdminSweep.get(user.renewDelegationToken(hmac).expiryTimestamp()) > 0);
        sweep.show("renewDelegationToken renewTimePeriodMs", () ->
                AdminSweep.get(user.renewDelegationToken(hmac, AdminSweep.timed(
                        new RenewDelegationTokenOptions().renewTimePeriodMs(60_000)))
                        .expiryTimestamp()) > 0);
        sweep.show("renewDelegationToken unknown", () ->
                user.renewDelegationToken(new byte[] {1}));
        sweep.show("expireDelegationToken expiryTimePeriodMs", () ->
                AdminSweep.get(user.expireDelegationToken(hmac, AdminSweep.timed(
                        new ExpireDelegationTokenOptions().expiryTimePeriodMs(30_000)))
                        .expiryTimestamp()) > 0);
        sweep.show("expireDelegationToken", () ->
                AdminSweep.get(user.expireDelegationToken(hmac).expiryTimestamp()) > 0);
        sweep.show("expireDelegationToken unknown", () ->
                user.expireDelegationToken(new byte[] {1}));
        sweep.show("describeDelegationToken without SASL", () ->
                admin.describeDelegationToken());
    }
}
