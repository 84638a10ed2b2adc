package org.opensaml.core.xml;

/** The third name of OpenSAML: see Saml2.java. */
interface XMLObject {}
