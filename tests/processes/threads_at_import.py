"""A module whose import starts a thread."""

import threading
import time

threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
