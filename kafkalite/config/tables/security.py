"""Keys of the broker about TLS, SASL, principals and tokens."""

KEYS = """
authorizer.class.name string "" - low
    Class that authorizes requests; none if empty.
config.providers list "" items low cluster-wide
    Names of providers of configuration values.
delegation.token.expiry.check.interval.ms long 3600000 1.. low
    Time between two checks for expired delegation tokens.
delegation.token.expiry.time.ms long 86400000 1.. medium
    Time after which a delegation token expires unless it is renewed.
delegation.token.max.lifetime.ms long 604800000 1.. medium
    Maximum lifetime of a delegation token.
delegation.token.secret.key password null - medium
    Secret to create delegation tokens, the same on every broker.
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - medium per-broker
    Class that determines the principal of a connection.
sasl.client.callback.handler.class class null - medium
    Callback handler of SASL clients.
sasl.enabled.mechanisms list GSSAPI items medium per-broker
    SASL mechanisms for clients.
sasl.jaas.config password null - medium per-broker
    Login settings in JAAS format.
sasl.kerberos.kinit.cmd string /usr/bin/kinit - medium per-broker
    Program that requests Kerberos tickets.
sasl.kerberos.min.time.before.relogin long 60000 - medium per-broker
    Minimum time between two Kerberos logins, in milliseconds.
sasl.kerberos.principal.to.local.rules list DEFAULT items medium per-broker
    Rules that map Kerberos principals to short names.
sasl.kerberos.service.name string null - medium per-broker
    Kerberos service name of the broker.
sasl.kerberos.ticket.renew.jitter double 0.05 - medium per-broker
    Random part of the renewal time, as a ratio.
sasl.kerberos.ticket.renew.window.factor double 0.8 - medium per-broker
    Part of a ticket's lifetime after which it is renewed, as a ratio.
sasl.login.callback.handler.class class null - medium
    Callback handler of SASL logins.
sasl.login.class class null - medium
    Class that performs SASL logins.
sasl.login.connect.timeout.ms int null - low
    Timeout of connecting to an authentication provider.
sasl.login.read.timeout.ms int null - low
    Timeout of a response from an authentication provider.
sasl.login.refresh.buffer.seconds short 300 - medium per-broker
    Seconds before expiry by which a login should have been refreshed.
sasl.login.refresh.min.period.seconds short 60 - medium per-broker
    Minimum seconds between two refreshes of a login.
sasl.login.refresh.window.factor double 0.8 - medium per-broker
    Part of a login's lifetime after which it is refreshed, as a ratio.
sasl.login.refresh.window.jitter double 0.05 - medium per-broker
    Random part of the refresh time, as a ratio.
sasl.login.retry.backoff.max.ms long 10000 - low
    Longest delay before a failed login is retried.
sasl.login.retry.backoff.ms long 100 - low
    Delay before a failed login is retried.
sasl.mechanism.controller.protocol string GSSAPI - high
    SASL mechanism that controllers use.
sasl.mechanism.inter.broker.protocol string GSSAPI - medium per-broker
    SASL mechanism between brokers.
sasl.oauthbearer.allow.unverified.audience boolean false - medium
    Whether signed tokens for any audience are accepted if no audience is configured.
sasl.oauthbearer.allow.unverified.issuer boolean false - medium
    Whether signed tokens of any issuer are accepted if no issuer is configured.
sasl.oauthbearer.assertion.algorithm string RS256 any-case(ES256|RS256) medium
    Signature algorithm of assertions.
sasl.oauthbearer.assertion.claim.aud string null - medium
    Audience claim of assertions.
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 low
    Seconds until an assertion expires.
sasl.oauthbearer.assertion.claim.iss string null - medium
    Issuer claim of assertions.
sasl.oauthbearer.assertion.claim.jti.include boolean false - medium
    Whether each assertion has a unique id.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 low
    Seconds before its creation at which an assertion becomes valid.
sasl.oauthbearer.assertion.claim.sub string null - medium
    Subject claim of assertions.
sasl.oauthbearer.assertion.file string null - medium
    File with a complete assertion.
sasl.oauthbearer.assertion.private.key.file string null - medium
    File with the key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase password null - medium
    Passphrase of the key that signs assertions.
sasl.oauthbearer.assertion.template.file string null - medium
    File with a template for headers and claims of assertions.
sasl.oauthbearer.client.credentials.client.id string null - medium
    Client id for the client credentials grant.
sasl.oauthbearer.client.credentials.client.secret password null - medium
    Client secret for the client credentials grant.
sasl.oauthbearer.clock.skew.seconds int 30 - low
    Allowed difference of clocks when tokens are validated, in seconds.
sasl.oauthbearer.expected.audience list "" items high
    Accepted audiences of tokens.
sasl.oauthbearer.expected.issuer string null - high
    Accepted issuer of tokens.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - low
    How often signing keys are refreshed.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - low
    Longest delay before a failed fetch of signing keys is retried.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - low
    Delay before a failed fetch of signing keys is retried.
sasl.oauthbearer.jwks.endpoint.url string null - medium
    URL of the signing keys.
sasl.oauthbearer.jwt.retriever.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever - medium
    Class that retrieves tokens.
sasl.oauthbearer.jwt.validator.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator - medium
    Class that validates tokens.
sasl.oauthbearer.scope string null - medium
    Scope of requested tokens.
sasl.oauthbearer.scope.claim.name string scope - low
    Name of the claim with a token's scope.
sasl.oauthbearer.sub.claim.name string sub - low
    Name of the claim with a token's subject.
sasl.oauthbearer.token.endpoint.url string null - medium
    URL of the token endpoint.
sasl.server.callback.handler.class class null - medium
    Callback handler of SASL servers.
sasl.server.max.receive.size int 524288 - medium
    Largest message that is accepted before authentication is complete.
security.inter.broker.protocol string PLAINTEXT one(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL) medium
    Security protocol between brokers.
security.providers string null - low
    Classes of security providers.
ssl.allow.dn.changes boolean false - low
    Whether a new certificate may have a different distinguished name.
ssl.allow.san.changes boolean false - low
    Whether a new certificate may have different alternative names.
ssl.cipher.suites list "" items medium per-broker
    Enabled cipher suites; all if empty.
ssl.client.auth string none one(required|requested|none) medium per-broker
    Whether client certificates are required, requested or not used.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 items medium per-broker
    Enabled TLS versions.
ssl.endpoint.identification.algorithm string https - low per-broker
    Algorithm that verifies a server's host name; no verification if empty.
ssl.engine.factory.class class null - low per-broker
    Class that creates TLS engines.
ssl.key.password password null - medium per-broker
    Password of the private key.
ssl.keymanager.algorithm string SunX509 - medium per-broker
    Algorithm of the key manager.
ssl.keystore.certificate.chain password null - medium per-broker
    Certificate chain, as PEM text.
ssl.keystore.key password null - medium per-broker
    Private key, as PEM text.
ssl.keystore.location string null - medium per-broker
    File with the key and its certificates.
ssl.keystore.password password null - medium per-broker
    Password of the key store.
ssl.keystore.type string JKS - medium per-broker
    Format of the key store.
ssl.principal.mapping.rules string DEFAULT - low
    Rules that map distinguished names to short names.
ssl.protocol string TLSv1.3 - medium per-broker
    TLS version of the TLS context.
ssl.provider string null - medium per-broker
    Security provider for TLS.
ssl.secure.random.implementation string null - low per-broker
    Source of random numbers for TLS.
ssl.trustmanager.algorithm string PKIX - medium per-broker
    Algorithm of the trust manager.
ssl.truststore.certificates password null - medium per-broker
    Trusted certificates, as PEM text.
ssl.truststore.location string null - medium per-broker
    File with trusted certificates.
ssl.truststore.password password null - medium per-broker
    Password of the trust store.
ssl.truststore.type string JKS - medium per-broker
    Format of the trust store.
"""

AUTHORIZER_KEYS = """
allow.everyone.if.no.acl.found string false - low
    Whether everyone may use a resource that no ACL applies to: with `true`, and no other value.
super.users string "" - low
    Principals that may do everything, separated by semicolons.
"""
"""Keys of the authorizer: Kafka's brokers do not describe them."""
