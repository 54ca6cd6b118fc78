"""Steps that nobody ran: predicted by a textbook's model, from counted operators, or over sizes."""
