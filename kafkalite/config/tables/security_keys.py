"""Keys of the broker about who speaks: TLS, SASL, principals, tokens."""

KEYS = """
authorizer.class.name string "" - low
    Class that decides who may do what; none when empty.
config.providers list "" items low cluster-wide
    Names of providers that fill in values from elsewhere.
delegation.token.expiry.check.interval.ms long 3600000 1.. low
    Time between two searches for expired delegation tokens.
delegation.token.expiry.time.ms long 86400000 1.. medium
    Time a delegation token is good for unless renewed.
delegation.token.max.lifetime.ms long 604800000 1.. medium
    Age that no delegation token outlives.
delegation.token.secret.key password null - medium
    Secret that delegation tokens are made with, the same on every broker.
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - medium per-broker
    Class that makes a principal of a connection.
sasl.client.callback.handler.class class null - medium
    Class that answers questions of a SASL client.
sasl.enabled.mechanisms list GSSAPI items medium per-broker
    SASL mechanisms that clients can use.
sasl.jaas.config password null - medium per-broker
    How a login is done, in JAAS form.
sasl.kerberos.kinit.cmd string /usr/bin/kinit - medium per-broker
    Program that gets Kerberos tickets.
sasl.kerberos.min.time.before.relogin long 60000 - medium per-broker
    Least time between two Kerberos logins, in milliseconds.
sasl.kerberos.principal.to.local.rules list DEFAULT items medium per-broker
    Rules that turn Kerberos principals into short names.
sasl.kerberos.service.name string null - medium per-broker
    Kerberos name that the broker runs under.
sasl.kerberos.ticket.renew.jitter double 0.05 - medium per-broker
    Share of the renewal time that is random.
sasl.kerberos.ticket.renew.window.factor double 0.8 - medium per-broker
    Share of a ticket's life after which it is renewed.
sasl.login.callback.handler.class class null - medium
    Class that answers questions of a SASL login.
sasl.login.class class null - medium
    Class that does SASL logins.
sasl.login.connect.timeout.ms int null - low
    Time that connecting to an authentication provider may take.
sasl.login.read.timeout.ms int null - low
    Time that an authentication provider may take to answer.
sasl.login.refresh.buffer.seconds short 300 - medium per-broker
    Seconds before expiry by which a login should have been refreshed.
sasl.login.refresh.min.period.seconds short 60 - medium per-broker
    Seconds that a login is left alone at least.
sasl.login.refresh.window.factor double 0.8 - medium per-broker
    Share of a login's life after which it is refreshed.
sasl.login.refresh.window.jitter double 0.05 - medium per-broker
    Share of the refresh time that is random.
sasl.login.retry.backoff.max.ms long 10000 - low
    Longest wait before a failed login is tried again.
sasl.login.retry.backoff.ms long 100 - low
    Wait before a failed login is tried again.
sasl.mechanism.controller.protocol string GSSAPI - high
    SASL mechanism that controllers use.
sasl.mechanism.inter.broker.protocol string GSSAPI - medium per-broker
    SASL mechanism that brokers use among themselves.
sasl.oauthbearer.assertion.algorithm string RS256 any-case(ES256|RS256) medium
    Algorithm that assertions are signed with.
sasl.oauthbearer.assertion.claim.aud string null - medium
    Audience that assertions claim.
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 low
    Seconds until an assertion expires.
sasl.oauthbearer.assertion.claim.iss string null - medium
    Issuer that assertions claim.
sasl.oauthbearer.assertion.claim.jti.include boolean false - medium
    Whether each assertion has an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 low
    Seconds that an assertion is dated back.
sasl.oauthbearer.assertion.claim.sub string null - medium
    Subject that assertions claim.
sasl.oauthbearer.assertion.file string null - medium
    File with an assertion made elsewhere.
sasl.oauthbearer.assertion.private.key.file string null - medium
    File with the key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase password null - medium
    Passphrase of that key.
sasl.oauthbearer.assertion.template.file string null - medium
    File with headers and claims that assertions start from.
sasl.oauthbearer.client.credentials.client.id string null - medium
    Client id for the client credentials grant.
sasl.oauthbearer.client.credentials.client.secret password null - medium
    Client secret for the client credentials grant.
sasl.oauthbearer.clock.skew.seconds int 30 - low
    Seconds by which clocks may differ when tokens are checked.
sasl.oauthbearer.expected.audience list "" items high
    Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer string null - high
    Issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - low
    How often signing keys are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - low
    Longest wait before signing keys are asked for again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - low
    Wait before signing keys are asked for again.
sasl.oauthbearer.jwks.endpoint.url string null - medium
    Where signing keys are found.
sasl.oauthbearer.jwt.retriever.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever - medium
    Class that gets tokens.
sasl.oauthbearer.jwt.validator.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator - medium
    Class that checks tokens.
sasl.oauthbearer.scope string null - medium
    Scope that tokens are asked for.
sasl.oauthbearer.scope.claim.name string scope - low
    Claim that holds a token's scope.
sasl.oauthbearer.sub.claim.name string sub - low
    Claim that holds a token's subject.
sasl.oauthbearer.token.endpoint.url string null - medium
    Where tokens are asked for.
sasl.server.callback.handler.class class null - medium
    Class that answers questions of a SASL server.
sasl.server.max.receive.size int 524288 - medium
    Largest message taken before authentication is done.
security.inter.broker.protocol string PLAINTEXT one(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL) medium
    Security protocol that brokers use among themselves.
security.providers string null - low
    Classes that bring security algorithms.
ssl.allow.dn.changes boolean false - low
    Whether a new certificate may carry another distinguished name.
ssl.allow.san.changes boolean false - low
    Whether a new certificate may carry other alternative names.
ssl.cipher.suites list "" items medium per-broker
    Cipher suites that may be used; all when empty.
ssl.client.auth string none one(required|requested|none) medium per-broker
    Whether clients must, may or need not show a certificate.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 items medium per-broker
    TLS versions that may be used.
ssl.endpoint.identification.algorithm string https - low per-broker
    How a server's name is checked against its certificate; not at all when empty.
ssl.engine.factory.class class null - low per-broker
    Class that makes TLS engines.
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
    Rules that turn a certificate's name into a short one.
ssl.protocol string TLSv1.3 - medium per-broker
    TLS version that a context is made for.
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
