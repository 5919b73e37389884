/** The extension of JUnit. */
package io.kafkalite.junit5;
