"""Fills DayTrader's database by its own page: 400 quotes, 200 users and their holdings."""

import sys
import urllib.request

with urllib.request.urlopen(
    "http://@address@:@web_port@/daytrader/config?action=buildDB", timeout=600
) as answer:
    text = answer.read().decode(errors="replace")
if "DayTrader tables" not in text and "uid:199" not in text:
    sys.exit(f"buildDB: {text[-500:]}")
