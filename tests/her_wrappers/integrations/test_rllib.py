"""The integration of RLlib where RLlib is missing; its other tests are in tests/rllib."""

import subprocess
import sys


def test_without_rllib_the_message_says_what_to_install():
    code = "import sys; sys.modules['ray.rllib'] = None; import her_wrappers.integrations.rllib"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        'her_wrappers.integrations.rllib needs RLlib; run: pip install "her-toolkit[rllib]"' in ended.stderr
    )
