import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/**
 * Checks tokens as a broker does. The argument is the URL of a key set. A line of the input is
 * audiences, issuer, claim of the principal, claim of the scope, and token, separated by tabs. A
 * line of the output is the principal and the expiry, separated by a tab, or "refused".
 */
public final class TokenChecker {
    private TokenChecker() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<List<String>, BrokerJwtValidator> validators = new HashMap<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> fields = Arrays.asList(line.split("\t", -1));
            BrokerJwtValidator validator = validators.computeIfAbsent(
                fields.subList(0, 4), settings -> newValidator(arguments[0], settings));
            output.println(check(validator, fields.get(4)));
        }
    }

    private static BrokerJwtValidator newValidator(String keys, List<String> settings) {
        Map<String, Object> configs = new HashMap<>();
        configs.put(SaslConfigs.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, keys);
        configs.put(
            SaslConfigs.SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
            settings.get(0).isEmpty()
                ? Collections.emptyList() : Arrays.asList(settings.get(0).split(",")));
        if (!settings.get(1).isEmpty()) {
            configs.put(SaslConfigs.SASL_OAUTHBEARER_EXPECTED_ISSUER, settings.get(1));
        }
        configs.put(SaslConfigs.SASL_OAUTHBEARER_SUB_CLAIM_NAME, settings.get(2));
        configs.put(SaslConfigs.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME, settings.get(3));
        configs.put(SaslConfigs.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS, 30);
        // Since Kafka 4.4, an audience and an issuer are expected unless these allow any.
        configs.put("sasl.oauthbearer.allow.unverified.audience", true);
        configs.put("sasl.oauthbearer.allow.unverified.issuer", true);
        BrokerJwtValidator validator = new BrokerJwtValidator();
        AppConfigurationEntry login = new AppConfigurationEntry(
            "OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED,
            Collections.emptyMap());
        validator.configure(configs, "OAUTHBEARER", Collections.singletonList(login));
        return validator;
    }

    private static String check(BrokerJwtValidator validator, String text) {
        try {
            OAuthBearerToken token = validator.validate(text);
            return token.principalName() + "\t" + token.lifetimeMs();
        } catch (RuntimeException refusal) {
            return "refused";
        }
    }
}
