"""Integrations: one module per library; `import her_wrappers` imports none of them."""
