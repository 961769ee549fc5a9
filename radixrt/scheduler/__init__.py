"""Admission, ordering, batch composition, retraction and the step loop."""
