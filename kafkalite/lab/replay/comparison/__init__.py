"""Field-by-field comparison of responses: field rules, findings, known differences."""
