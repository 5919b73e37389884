/** Connections of Spring Boot to a broker in a process or in a container. */
package io.kafkalite.spring;
