package org.opensaml.saml.saml2.core;

/**
 * Two names of OpenSAML that the JVM must find to verify the SAML actions of Elasticsearch, which a
 * node loads when it starts. OpenSAML itself is not on Maven Central. Without a SAML realm nothing
 * of it is called.
 */
interface StatusResponseType {}

interface RequestAbstractType {}
