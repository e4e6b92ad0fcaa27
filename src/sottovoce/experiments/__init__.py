"""The paper's figures and tables, and measurements of the system itself."""
