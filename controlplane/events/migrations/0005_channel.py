from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0004_in_their_order"),
    ]

    operations = [
        migrations.RenameField(model_name="auditentry", old_name="door", new_name="channel"),
    ]
