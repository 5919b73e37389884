package io.kafkalite;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Collectors;

/** Sends requests to the control API of one broker. */
final class ControlClient {
    static final JsonMapper JSON =
            JsonMapper.builder()
                    .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
                    .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
                    .defaultPropertyInclusion(
                            JsonInclude.Value.construct(
                                    JsonInclude.Include.NON_NULL, JsonInclude.Include.NON_NULL))
                    .build();

    private static final int CONFLICT = 409;
    private static final Duration TIMEOUT = Duration.ofMinutes(11); // the longest wait has 10

    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String token;

    ControlClient(String url, String token) {
        this.url = url;
        this.token = token;
    }

    String url() {
        return url;
    }

    /** Sends a request without parameters and body; the name takes the place of `{…}` in the path. */
    <T> T send(Route route, String name, Class<T> type) {
        return send(route, name, Map.of(), null, type);
    }

    /** Sends a request, and returns the response; parameters whose value is null are left out. */
    <T> T send(Route route, String name, Map<String, ?> parameters, Object body, Class<T> type) {
        for (String parameter : parameters.keySet()) {
            if (!route.parameters.contains(parameter)) {
                throw new IllegalArgumentException(
                        route.method + " " + route.path + " has no parameter " + parameter);
            }
        }
        String query =
                parameters.entrySet().stream()
                        .filter(entry -> entry.getValue() != null)
                        .map(entry -> entry.getKey() + "=" + encoded(entry.getValue().toString()))
                        .collect(Collectors.joining("&"));
        String path = route.path.replaceAll("\\{\\w+}", encoded(name));
        HttpResponse<String> response =
                exchange(route.method, query.isEmpty() ? path : path + "?" + query, body);
        boolean isAnswer = response.statusCode() < 300 || response.statusCode() == CONFLICT;
        try {
            if (!isAnswer) {
                String error = JSON.readTree(response.body()).path("error").asText();
                throw new ControlException(response.statusCode(), error);
            }
            return JSON.readValue(response.body(), type);
        } catch (JsonProcessingException error) {
            throw new ControlException(response.statusCode(), response.body());
        }
    }

    private HttpResponse<String> exchange(String method, String path, Object body) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
            request.timeout(TIMEOUT);
            if (token != null) {
                request.header("Authorization", "Bearer " + token);
            }
            if (body == null) {
                request.method(method, BodyPublishers.noBody());
            } else {
                request.header("Content-Type", "application/json");
                request.method(method, BodyPublishers.ofString(JSON.writeValueAsString(body)));
            }
            return http.send(request.build(), BodyHandlers.ofString());
        } catch (IOException error) {
            throw new ControlException(0, method + " " + url + path + ": " + error.getMessage());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new ControlException(0, "interrupted");
        }
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
