"""Step 1: what a text claims. Of the report, only names of launches and files are used."""
