"""Groups of similar documents, and their representatives."""
