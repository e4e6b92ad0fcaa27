"""Trainings under attack: attackers push one item, and the server defends itself. Not in the paper.

Three attackers are tried. `history` invents a history and runs honest code. `reports` sends reports
of its choice: they move the item's row towards the row of the best-liked item. `adaptive` predicts
in every epoch what the next model would be and sends what helps most; with the reports that are
left over it pushes down the items ranked above its own.
"""
