"""Sample documents, which `esdedup examples` writes."""
