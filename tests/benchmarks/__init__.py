"""Speed, as ratios to yardsticks that ran a moment before and after: machines differ and wander."""
