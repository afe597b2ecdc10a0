"""Goals: which parts of a batch get new ones, and which states supply them."""
