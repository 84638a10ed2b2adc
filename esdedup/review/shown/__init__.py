"""How pages show documents: `texts` with fields beside them, and every `difference` marked."""
