"""Texts with secrets, each as a line of JSON: its kind, the text, and the end of the secret. They are random, and `detect-secrets`
finds each by the plugin of its kind. Every plugin has one, but those that only measure entropy and the one for
addresses of the internet.
"""

import json
import random
import string

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

LETTERS, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
chance = random.Random(17)


def some(count, alphabet=LETTERS):
    return "".join(chance.choices(alphabet, k=count))


SECRETS = {
    "ArtifactoryDetector": ["AKC" + some(20)],
    "AWSKeyDetector": ["AKIA" + some(16, string.ascii_uppercase + string.digits)],
    "AzureStorageKeyDetector": ["AccountKey=" + some(86) + "=="],
    "BasicAuthDetector": ["https://me:" + some(12) + "@example.com/x"],
    "CloudantDetector": ['cloudant_password = "' + some(64, HEX) + '"'],
    "DiscordBotTokenDetector": ["M" + some(23) + "." + some(6) + "." + some(27)],
    "GitHubTokenDetector": ["ghp_" + some(36), "gho_" + some(36)],
    "GitLabTokenDetector": ["glpat-" + some(20), "glrt-" + some(20), "gldt-" + some(20)],
    "IbmCloudIamDetector": ['ibm_api_key = "' + some(44) + '"'],
    "IbmCosHmacDetector": ['cos_secret_access_key = "' + some(48, HEX) + '"'],
    "JwtTokenDetector": ["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + some(43)],
    "KeywordDetector": ['password = "' + some(14) + '"', "db_password: '" + some(14) + "'",
                        'api_key = "' + some(20) + '"', 'secret_token => "' + some(20) + '"'],
    "MailchimpDetector": [some(32, HEX) + "-us12"],
    "NpmDetector": ["//registry.example.com/:_authToken=npm_" + some(36)],
    "OpenAIDetector": ["sk-" + some(20) + "T3BlbkFJ" + some(20)],
    "PrivateKeyDetector": ["-----BEGIN OPENSSH PRIVATE KEY-----"],
    "PypiTokenDetector": ["pypi-AgEIcHlwaS5vcmc" + some(80)],
    "SendGridDetector": ["SG." + some(22) + "." + some(43)],
    "SlackDetector": ["xoxb-" + some(12, string.digits) + "-" + some(12, string.digits) + "-" + some(24),
                      "https://hooks.slack.com/services/T" + some(8) + "/B" + some(8) + "/" + some(24)],
    "SoftlayerDetector": ['softlayer_api_key = "' + some(64, HEX) + '"'],
    "SquareOAuthDetector": ["sq0csp-" + some(43)],
    "StripeDetector": ["sk_live_" + some(24), "rk_live_" + some(24)],
    "TelegramBotTokenDetector": ["1234567890:" + some(35)],
    "TwilioKeyDetector": ["AC" + some(32, HEX), "SK" + some(32, HEX)],
}
OTHERS = {"Base64HighEntropyString", "HexHighEntropyString", "IPPublicDetector"}

plugins = {of.__name__: of() for of in get_mapping_from_secret_type_to_class().values()}
assert plugins.keys() == SECRETS.keys() | OTHERS, plugins.keys() ^ SECRETS.keys() ^ OTHERS
for name, texts in SECRETS.items():
    for text in texts:
        found = plugins[name].analyze_line(filename="notes.txt", line=text, line_number=1)
        assert found, f"{name} does not find {text}"
        value = next(iter(found)).secret_value
        # Some plugins return the prefix of a token.
        secret = value if len(value) > 8 else text
        print(json.dumps({"kind": name, "text": text, "end": secret[-8:]}))
